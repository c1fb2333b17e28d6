// SPDX-License-Identifier: MIT
// Re-rotation of keys in a cache: by a delta, and from one set of frequencies to another.
#include "accuracy/promises.hpp"
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/longrope.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/rotary/rerotate.hpp>

#include <array>
#include <cmath>
#include <string>
#include <vector>

namespace rerotate_test {

using posenc::Index;
using posenc::PositionError;
using posenc::Positions;
using posenc::Rope;
using posenc::ShapeError;
using support::Heads;
using support::message_of;

namespace {

/// Returns the largest difference of two rotations of x, in ulp of each pair's norm times m.
/// Infinite if a channel that is not rotated differs.
template <class Pairing, class T>
double difference_in_ulp(Heads<T>& x, Heads<T>& a, Heads<T>& b, Index offset, Index pairs,
                         double m) {
  const reference::RopeRule rule{rotation::reference_pairing<Pairing>, offset};
  const auto in = x.view();
  double worst = 0;
  for (Index n = 0; n < in.batch; ++n) {
    for (Index s = 0; s < in.seq; ++s) {
      for (Index h = 0; h < in.heads; ++h) {
        const auto row = support::row_of(in, n, s, h);
        const auto one = support::row_of(a.view(), n, s, h),
                   two = support::row_of(b.view(), n, s, h);
        std::vector<double> ulp(row.size(), 0);
        for (std::size_t i = 0; i < static_cast<std::size_t>(pairs); ++i) {
          const auto at = reference::pair_channels(rule, static_cast<std::size_t>(pairs), i);
          const double norm = m * std::hypot(row[at.first], row[at.second]);
          // The distance of adjacent numbers of T around the norm: twice the largest rounding
          // error.
          ulp[at.first] = ulp[at.second] =
              2 * support::rounding<T>(std::exp2(std::floor(std::log2(norm))));
        }
        for (std::size_t d = 0; d < row.size(); ++d) {
          const double error = support::abs_difference(one[d], two[d]);
          if (error != 0) worst = support::worse(worst, error / ulp[d]);
        }
      }
    }
  }
  return worst;
}

double norm_of_pair(const std::vector<double>& row, std::size_t i) {
  return std::hypot(row[2 * i], row[2 * i + 1]);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("shift_keys: shifted keys are keys rotated further", "[rerotate]",
                        rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(1);
    const Rope<Pairing> rope(
        posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(32), 1.4), 2);
    auto x = Heads<T>::random(random, 2, 6, 3, 37);
    for (const Index delta : {-1000, -1, 0, 7, 100000}) {
      INFO(Pairing::name << ", delta " << delta);
      auto moved = x, direct = x;
      rope.rotate(moved.view(), Positions::starts({0, 4096}, 6));
      rope.rotate(direct.view(), Positions::starts({delta, 4096 + delta}, 6));
      auto by_positions = moved;
      posenc::shift_keys(moved.view(), rope, {delta});
      CHECK(difference_in_ulp<Pairing>(x, moved, direct, 2, 16, 1.4) <= 4);
      posenc::shift_keys(by_positions.view(), rope, Positions::ids(std::vector<Index>(6, delta)));
      CHECK(support::same_bits(by_positions.view(), moved.view()));
    }
    // Each token has a different delta, as in a cache that is compacted.
    auto moved = x, direct = x;
    rope.rotate(moved.view(), Positions::range(0, 6));
    rope.rotate(direct.view(), Positions::ids({0, 1, 1, 2, 2, 3}));
    posenc::shift_keys(moved.view(), rope, Positions::ids({0, 0, -1, -1, -2, -2}));
    CHECK(difference_in_ulp<Pairing>(x, moved, direct, 2, 16, 1.4) <= 4);
  });
}

TEST_CASE("shift_keys: norms do not drift over a thousand shifts", "[rerotate]") {
  const Rope<posenc::Interleaved> rope(posenc::YarnScaling{
      .rotary_dim = 64, .base = 10000, .factor = 8, .original_max_position = 4096});
  REQUIRE(rope.frequencies().attention_factor() > 1.2);
  support::Random random(2);
  auto x = Heads<float>::random(random, 1, 4, 2, 64);
  for (const Index delta : {-1, -256, 13}) {
    auto y = x;
    rope.rotate(y.view(), Positions::range(300000, 4));
    auto before = y;
    for (int n = 0; n < 1000; ++n) posenc::shift_keys(y.view(), rope, {delta});
    double worst = 0;
    for (Index s = 0; s < 4; ++s) {
      for (Index h = 0; h < 2; ++h) {
        const auto a = support::row_of(before.view(), 0, s, h),
                   b = support::row_of(y.view(), 0, s, h);
        for (std::size_t i = 0; i < 32; ++i) {
          worst = support::worse(worst, std::abs(norm_of_pair(b, i) / norm_of_pair(a, i) - 1));
        }
      }
    }
    INFO("delta " << delta);
    CHECK(worst <= promises::shift_keys_drift.value());
    CHECK(worst > 0);
  }
}

TEMPLATE_LIST_TEST_CASE("rerotate: gives the keys of the other rope", "[rerotate]",
                        rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    const posenc::Unscaled plain{.rotary_dim = 64, .base = 10000};
    const posenc::NtkScaling ntk{.rotary_dim = 64, .base = 10000, .factor = 8};
    const posenc::YarnScaling yarn{
        .rotary_dim = 64, .base = 10000, .factor = 16, .original_max_position = 4096};
    const std::vector<Rope<Pairing>> ropes{Rope<Pairing>(plain, 3), Rope<Pairing>(ntk, 3),
                                           Rope<Pairing>(yarn, 3)};
    support::Random random(3);
    for (const auto& from : ropes) {
      for (const auto& to : ropes) {
        auto x = Heads<T>::random(random, 2, 8, 2, 70);
        const auto old = Positions::starts({0, 120000}, 8), now = Positions::range(77, 8);
        for (const auto& [p, q] : {std::pair{old, old}, std::pair{old, now}, std::pair{now, old}}) {
          auto moved = x, direct = x;
          from.rotate(moved.view(), p);
          posenc::rerotate(moved.view(), from, p, to, q);
          to.rotate(direct.view(), q);
          CHECK(difference_in_ulp<Pairing>(x, moved, direct, 3, 32,
                                           to.frequencies().attention_factor()) <= 4);
        }
      }
    }
  });
}

TEST_CASE("rerotate: a cache outlives a switch of frequencies that depend on the length",
          "[rerotate]") {
  support::Random random(4);
  auto x = Heads<float>::random(random, 1, 16, 2, 64);
  const auto switched = [&](const posenc::Frequencies& before, const posenc::Frequencies& after) {
    const Rope<posenc::HalfRotate> from(before), to(after);
    auto moved = x, direct = x;
    const auto positions = Positions::range(4090, 16);
    from.rotate(moved.view(), positions);
    posenc::rerotate(moved.view(), from, positions, to, positions);
    to.rotate(direct.view(), positions);
    return difference_in_ulp<posenc::HalfRotate>(x, moved, direct, 0, 32, after.attention_factor());
  };
  const posenc::DynamicNtkScaling dynamic{
      .rotary_dim = 64, .base = 10000, .factor = 2, .original_max_position = 4096};
  CHECK(switched(frequencies(dynamic, 4096), frequencies(dynamic, 6000)) <= 4);
  CHECK(switched(frequencies(dynamic, 6000), frequencies(dynamic, 6001)) <= 4);
  const posenc::LongRopeScaling longrope{.rotary_dim = 64,
                                         .base = 10000,
                                         .short_factor = std::vector<double>(32, 1.1),
                                         .long_factor = std::vector<double>(32, 20),
                                         .original_max_position = 4096,
                                         .short_mscale = 1.05,
                                         .long_mscale = 1.24};
  const auto small = frequencies(longrope, 4096), large = frequencies(longrope, 4097);
  CHECK(switched(small, large) <= 4);
  CHECK(switched(large, small) <= 4);
}

TEST_CASE("rerotate: keys under the float pipeline", "[rerotate]") {
  support::Random random(5);
  auto x = Heads<float>::random(random, 1, 16, 2, 64);
  const posenc::Unscaled plain{.rotary_dim = 64, .base = 10000};
  const Rope<posenc::HalfRotate> exact(plain), hf(plain, 0, {}, posenc::AnglePolicy::HfFloat32);
  auto moved = x, direct = x;
  const auto positions = Positions::range(1'000'000, 16);
  hf.rotate(moved.view(), positions);
  exact.rotate(direct.view(), positions);
  CHECK(difference_in_ulp<posenc::HalfRotate>(x, moved, direct, 0, 32, 1) > 1000);
  posenc::rerotate(moved.view(), hf, positions, exact, positions);
  CHECK(difference_in_ulp<posenc::HalfRotate>(x, moved, direct, 0, 32, 1) <= 4);
}

TEST_CASE("shift_keys: on several axes only those that move rotate", "[rerotate]") {
  const Rope<posenc::HalfRotate> rope(
      posenc::Unscaled{.rotary_dim = 32, .base = 10000}, 0,
      posenc::mrope_interleaved({6, 5, 5}, posenc::MropeTail::Time));
  support::Random random(6);
  auto x = Heads<float>::random(random, 1, 6, 2, 32);
  const auto positions = Positions::axes(
      std::array{Positions::range(40, 6), Positions::range(3, 6), Positions::range(9, 6)});
  const auto moved_on_h = Positions::axes(
      std::array{Positions::range(40, 6), Positions::range(-2, 6), Positions::range(9, 6)});
  auto y = x, direct = x;
  rope.rotate(y.view(), positions);
  auto before = y;
  posenc::shift_keys(y.view(), rope, {0, -5, 0});
  rope.rotate(direct.view(), moved_on_h);
  CHECK(difference_in_ulp<posenc::HalfRotate>(x, y, direct, 0, 16, 1) <= 4);
  for (Index i = 0; i < 16; ++i) {
    const bool moves = rope.axes().axis(i) == 1;
    for (const Index d : {i, i + 16}) {
      for (Index s = 0; s < 6; ++s) {
        CHECK((y.view().row(0, s, 1)[d] == before.view().row(0, s, 1)[d]) == !moves);
      }
    }
  }
  // rerotate() gives the same result, also between different tables of axes.
  auto again = before;
  posenc::rerotate(again.view(), rope, positions, rope, moved_on_h);
  CHECK(difference_in_ulp<posenc::HalfRotate>(x, again, direct, 0, 16, 1) <= 4);
  const Rope<posenc::HalfRotate> plain(posenc::Unscaled{.rotary_dim = 32, .base = 10000});
  direct = x;
  plain.rotate(direct.view(), Positions::range(5, 6));
  posenc::rerotate(before.view(), rope, positions, plain, Positions::range(5, 6));
  CHECK(difference_in_ulp<posenc::HalfRotate>(x, before, direct, 0, 16, 1) <= 4);
}

TEST_CASE("shift_keys and rerotate: check their input first", "[rerotate][errors]") {
  using Half = Rope<posenc::HalfRotate>;
  const Half rope(posenc::Unscaled{.rotary_dim = 8, .base = 10000});
  support::Random random(7);
  auto x = Heads<float>::random(random, 2, 3, 1, 8);
  auto before = x;
  const auto range = Positions::range(0, 3), far = Positions::range(Index{1} << 51, 3);
  const auto narrow = posenc::slice_features(x.view(), 0, 6);
  const auto shape = [](const auto& call) { return message_of<ShapeError>(call); };

  CHECK(shape([&] { posenc::shift_keys(narrow, rope, {1}); }) ==
        "posenc::shift_keys: head_dim (6) must include the rotary channels [0, 8); x is [2, 3, 1, "
        "6]");
  CHECK(shape([&] {
          posenc::shift_keys(x.view(), rope, {1, 2});
        }) == "posenc::shift_keys: there must be one delta for each of the 1 axes but there are 2");
  CHECK(shape([&] { posenc::shift_keys(x.view(), rope, Positions::range(0, 4)); }) ==
        "posenc::shift_keys: positions [1, 4] must match batch and sequence of x, which is "
        "[2, 3, 1, 8]");
  CHECK(shape([&] { posenc::shift_keys(x.view(), rope, Positions::grid(1, 3)); }) ==
        "posenc::shift_keys: positions must have 1 axis but have 2");
  const std::string reach = ": angles must not exceed 2^50 radians";
  CHECK(message_of<PositionError>([&] {
          posenc::shift_keys(x.view(), rope, far);
        }).find("posenc::shift_keys" + reach) == 0);
  CHECK(message_of<PositionError>([&] {
          posenc::shift_keys(x.view(), rope, {Index{1} << 51});
        }).find("posenc::shift_keys" + reach) == 0);

  CHECK(message_of<posenc::ConfigError>([&] {
          const Half other(posenc::Unscaled{.rotary_dim = 4, .base = 10000}, 2);
          posenc::rerotate(x.view(), rope, range, other, range);
        }) ==
        "posenc::rerotate: both ropes must rotate the same channels but they are [0, 8) and "
        "[2, 6)");
  CHECK(
      shape([&] { posenc::rerotate(narrow, rope, range, rope, range); }) ==
      "posenc::rerotate: head_dim (6) must include the rotary channels [0, 8); x is [2, 3, 1, 6]");
  const std::string name = "posenc::rerotate: positions [1, 4] must match";
  const auto longer = Positions::range(0, 4);
  CHECK(shape([&] { posenc::rerotate(x.view(), rope, longer, rope, range); }).find(name) == 0);
  CHECK(shape([&] { posenc::rerotate(x.view(), rope, range, rope, longer); }).find(name) == 0);
  for (const auto& [p, q] : {std::pair{far, range}, std::pair{range, far}}) {
    CHECK(message_of<PositionError>([&, p = p, q = q] {
            posenc::rerotate(x.view(), rope, p, rope, q);
          }).find("posenc::rerotate" + reach) == 0);
  }
  CHECK(support::same_bits(x.view(), before.view()));
}

TEST_CASE("rerotate: rejects factors whose ratio a float does not hold", "[rerotate][errors]") {
  const auto rope = [](double factor) {
    return Rope<posenc::HalfRotate>(posenc::Frequencies::from_inv_freq({1.0}, factor));
  };
  const auto p = Positions::range(1, 1);
  const auto message = [&](auto k, double from, double to) {
    return message_of<posenc::ConfigError>(
        [&] { posenc::rerotate(k.view(), rope(from), p, rope(to), p); });
  };
  support::Random random(8);
  auto x = Heads<float>::random(random, 1, 1, 1, 2);
  const std::string rule =
      "posenc::rerotate: the ratio of the attention factors must be a normal number in the "
      "arithmetic of k, but they are ";
  CHECK(message(x, 1e-20, 1e20) == rule + "1e+20 and 1e-20");
  CHECK(message(x, 1e20, 1e-20) == rule + "1e-20 and 1e+20");
  CHECK(message(Heads<Eigen::half>::random(random, 1, 1, 1, 2), 1e20, 1e-18) ==
        rule + "1e-18 and 1e+20");
  for (const auto& [from, to] : {std::pair{1e-19, 1e19}, std::pair{1e18, 1e-18}}) {
    auto moved = x, direct = x;
    rope(from).rotate(moved.view(), p);
    posenc::rerotate(moved.view(), rope(from), p, rope(to), p);
    rope(to).rotate(direct.view(), p);
    CHECK(difference_in_ulp<posenc::HalfRotate>(x, moved, direct, 0, 1, to) <= 4);
  }
  auto wide = Heads<double>::random(random, 1, 1, 1, 2), direct = wide, moved = wide;
  rope(1e-25).rotate(moved.view(), p);
  posenc::rerotate(moved.view(), rope(1e-25), p, rope(1e25), p);
  rope(1e25).rotate(direct.view(), p);
  CHECK(difference_in_ulp<posenc::HalfRotate>(wide, moved, direct, 0, 1, 1e25) <= 6);
}

}  // namespace rerotate_test
