// SPDX-License-Identifier: MIT
// Rotation from one element type into another, out of place: float into 16-bit memory, and back.
#include "reference/float16.hpp"
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/devices.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/xpos.hpp>

#include <Eigen/Core>

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace rotate_between_types_test {

using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;
using posenc::ShapeError;
using support::Heads;
using support::message_of;
using Half = Eigen::half;
using Bfloat16 = Eigen::bfloat16;
using Pairs = std::tuple<std::pair<float, Bfloat16>, std::pair<float, Half>,
                         std::pair<Bfloat16, float>, std::pair<Half, Bfloat16>>;

namespace {

struct Shape {
  Index batch, seq, heads, dim, rotary_dim, offset;
};

const Shape shapes[] = {{1, 1, 1, 2, 2, 0},     {2, 3, 3, 6, 6, 0},   {3, 1, 2, 64, 64, 0},
                        {2, 5, 4, 128, 128, 0}, {1, 1, 9, 96, 96, 0}, {1, 3, 2, 300, 300, 0},
                        {2, 3, 2, 80, 32, 48},  {1, 4, 3, 21, 6, 7},  {1, 1, 3, 41, 30, 9},
                        {2, 2, 2, 310, 280, 11}};

/// Returns the nearest T by the definition of the format.
template <class T>
T rounded(float x) {
  if constexpr (sizeof(T) != 2) {
    return x;
  } else {
    const auto format = std::is_same_v<T, Half> ? reference::ieee_half : reference::bfloat16;
    return std::bit_cast<T>(reference::encode(format, static_cast<double>(x)));
  }
}

/// Returns a dense copy of x as To.
template <class To, class From>
Heads<To> converted(HeadsView<From> x) {
  Heads<To> y(x.batch, x.seq, x.heads, x.dim);
  for (Index b = 0; b < x.batch; ++b) {
    for (Index s = 0; s < x.seq; ++s) {
      for (Index h = 0; h < x.heads; ++h) {
        for (Index d = 0; d < x.dim; ++d) {
          y.view().row(b, s, h)[d] = rounded<To>(static_cast<float>(x.row(b, s, h)[d]));
        }
      }
    }
  }
  return y;
}

/// Checks that into(x, out) is rotate() in float and one rounding.
template <class In, class Out, class Rotate, class Into>
void check(const Shape& shape, const support::Layout& from, const support::Layout& to,
           const Rotate& rotate, const Into& into) {
  support::Random random(static_cast<std::uint64_t>(shape.dim));
  auto x = Heads<In>::random(random, shape.batch, shape.seq, shape.heads, shape.dim, from);
  // Numbers that a narrower type cannot hold, or not exactly.
  x.for_each([&](In& value) {
    const Index kind = random.integer(0, 30);
    const int exponent = kind > 0 ? -20 : sizeof(In) == 4 ? 17 : 8;
    if (kind < 3) value = static_cast<In>(std::ldexp(static_cast<float>(value), exponent));
  });
  const auto before = x;
  Heads<Out> out(shape.batch, shape.seq, shape.heads, shape.dim, to);
  auto wide = converted<float>(x.view());
  rotate(wide.view());
  into(x.view(), out.view());
  CHECK(support::same_bits(out.view(), converted<Out>(wide.view()).view()));
  CHECK(out.surroundings_kept());
  CHECK(support::same_bits(x.view(), Heads<In>(before).view()));
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("rotate_into another type: rotation in float, rounded once", "[rope]",
                        Pairs) {
  using In = typename TestType::first_type;
  using Out = typename TestType::second_type;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    for (const Shape& shape : shapes) {
      const posenc::Rope<Pairing> rope(
          posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(shape.rotary_dim), 1.25),
          shape.offset);
      const auto positions = Positions::range(1000, shape.seq);
      const auto table = rope.template table<float>(positions);
      for (const support::Layout& from : support::layouts()) {
        for (const support::Layout& to : support::layouts()) {
          INFO(Pairing::name << ", head_dim " << shape.dim << ", " << from.name << " to "
                             << to.name);
          const auto rotate = [&](HeadsView<float> x) { rope.rotate(x, positions); };
          check<In, Out>(shape, from, to, rotate, [&](HeadsView<In> x, HeadsView<Out> out) {
            rope.rotate_into(x, out, positions);
          });
          check<In, Out>(shape, from, to, rotate, [&](HeadsView<const In> x, HeadsView<Out> out) {
            table.rotate_into(x, out);
          });
        }
      }
    }
  });
}

TEST_CASE("rotate_into another type: bfloat16 equals the reference in double", "[rope]") {
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    constexpr Index seq = 5, heads = 3, dim = 70, rotary_dim = 64, offset = 3;
    const auto w = rotation::plain_frequencies(rotary_dim);
    const posenc::Rope<Pairing> rope(posenc::Frequencies::from_inv_freq(w), offset);
    const reference::RopeRule rule{rotation::reference_pairing<Pairing>, offset, 1};
    support::Random random(7);
    auto x = Heads<float>::random(random, 1, seq, heads, dim);
    Heads<Bfloat16> y(1, seq, heads, dim);
    rope.rotate_into(x.view(), y.view(), Positions::range(123456, seq));
    double worst = 0;
    for (Index s = 0; s < seq; ++s) {
      for (Index h = 0; h < heads; ++h) {
        const auto in = support::row_of(x.view(), 0, s, h),
                   got = support::row_of(y.view(), 0, s, h);
        const auto want =
            reference::rotate(in, 123456.0 + static_cast<double>(s), rotation::exact(w), rule);
        for (std::size_t i = 0; i < w.size(); ++i) {
          const auto at = reference::pair_channels(rule, w.size(), i);
          const double n = std::hypot(in[at.first], in[at.second]);
          for (const std::size_t d : {at.first, at.second}) {
            worst = support::worse(worst,
                                   std::abs(got[d] - want[d]) / rotation::tolerance<Bfloat16>(n));
          }
        }
        for (const std::size_t d : {0U, 2U, 67U, 69U}) {
          CHECK(got[d] == static_cast<double>(
                              static_cast<float>(rounded<Bfloat16>(static_cast<float>(in[d])))));
        }
      }
    }
    CHECK(worst <= 1);
  });
}

TEMPLATE_LIST_TEST_CASE("rotate_into another type: every rope", "[rope]", Pairs) {
  using In = typename TestType::first_type;
  using Out = typename TestType::second_type;
  using X = HeadsView<In>;
  using Y = HeadsView<Out>;
  using Float = HeadsView<float>;
  const support::Layout dense = support::layouts()[0], apart = support::layouts()[4];
  const posenc::Unscaled rule{.rotary_dim = 24, .base = 10000};
  const Shape shape{2, 6, 3, 29, 24, 0};
  const auto positions = Positions::starts({3, 700}, 6);
  const auto on_two = Positions::axes({positions, Positions::starts({0, 40}, 6)});

  const posenc::AnyRope any(posenc::PairingKind::Interleaved, rule);
  check<In, Out>(
      shape, dense, apart, [&](Float x) { any.rotate(x, positions); },
      [&](X x, Y out) { any.rotate_into(x, out, positions); });
  const auto any_table = any.table<float>(positions);
  check<In, Out>(
      shape, apart, dense, [&](Float x) { any_table.rotate(x); },
      [&](X x, Y out) { any_table.rotate_into(x, out); });
  const posenc::ChatGlmRope glm(24, 10000);
  check<In, Out>(
      shape, dense, dense, [&](Float x) { glm.rotate(x, on_two); },
      [&](X x, Y out) { glm.rotate_into(x, out, on_two); });
  const posenc::MixedRope<posenc::HalfRotate> mixed(std::vector<double>(2 * 3 * 12, 0.25),
                                                    {.axes = 2, .heads = 3, .rotary_dim = 24});
  check<In, Out>(
      shape, apart, apart, [&](Float x) { mixed.rotate(x, on_two); },
      [&](X x, Y out) { mixed.rotate_into(x, out, on_two); });
  const posenc::XPos<posenc::Interleaved> xpos(rule, {.scale_base = 512});
  check<In, Out>(
      shape, dense, apart, [&](Float x) { xpos.rotate_queries(x, positions); },
      [&](X x, Y out) { xpos.rotate_queries_into(x, out, positions); });
  check<In, Out>(
      shape, dense, apart, [&](Float x) { xpos.rotate_keys(x, positions); },
      [&](X x, Y out) { xpos.rotate_keys_into(x, out, positions); });
}

TEST_CASE("rotate_into another type: the same bits on every device", "[rope][threads]") {
  const Shape shape{2, 37, 4, 64, 64, 0};
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 64, .base = 10000});
  const auto positions = Positions::range(5, 37);
  Eigen::ThreadPool pool(3);
  const Eigen::ThreadPoolDevice device(&pool, 3);
  check<float, Bfloat16>(
      shape, {}, {}, [&](HeadsView<float> x) { rope.rotate(x, positions); },
      [&](HeadsView<float> x, HeadsView<Bfloat16> out) {
        rope.rotate_into(x, out, positions, device);
      });
}

TEST_CASE("rotate_into another type: rejects what does not fit before it writes",
          "[rope][errors]") {
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 8, .base = 10000});
  support::Random random(1);
  auto x = Heads<float>::random(random, 1, 3, 2, 8);
  Heads<Bfloat16> out(1, 3, 2, 8);
  const auto positions = Positions::range(0, 3);
  const auto fails = [&](HeadsView<float> in, HeadsView<Bfloat16> to, const Positions& at) {
    return message_of<ShapeError>([&] { rope.rotate_into(in, to, at); });
  };
  CHECK(fails(x.view(), posenc::slice_heads(out.view(), 0, 1), positions) ==
        "posenc::Rope::rotate_into: input [1, 3, 2, 8] and output [1, 3, 1, 8] must have the same "
        "shape");
  auto overlapping = out.view();
  overlapping.head_stride = 4;
  CHECK(fails(x.view(), overlapping, positions).find("must not share memory") != std::string::npos);
  CHECK(fails(x.view(), {.batch = 1, .seq = 3, .heads = 2, .dim = 8}, positions)
            .find("data is null") != std::string::npos);
  CHECK(fails(posenc::slice_features(x.view(), 0, 7), posenc::slice_features(out.view(), 0, 7),
              positions)
            .find("must include the rotary channels") != std::string::npos);
  CHECK(fails(x.view(), out.view(), Positions::range(0, 4)).find("must match batch") !=
        std::string::npos);
  CHECK_THROWS_AS(rope.table<float>(Positions::range(0, 2)).rotate_into(x.view(), out.view()),
                  ShapeError);
  CHECK_THROWS_AS(rope.rotate_into(x.view(), out.view(), Positions::real({0, 1, 1e300})),
                  posenc::PositionError);
  CHECK(support::same_bits(out.view(), Heads<Bfloat16>(1, 3, 2, 8).view()));
}

}  // namespace rotate_between_types_test
