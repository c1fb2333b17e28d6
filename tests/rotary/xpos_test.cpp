// SPDX-License-Identifier: MIT
// XPos against its reference, and the properties of a fixed centre.
#include "reference/xpos.hpp"

#include "accuracy/promises.hpp"
#include "rotation_reference.hpp"
#include "support/catch.hpp"
#include "support/guarded.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/xpos.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace xpos_test {

using posenc::ConfigError;
using posenc::Index;
using posenc::PositionError;
using posenc::Positions;
using posenc::ShapeError;
using posenc::XPos;
using support::Heads;
using support::message_of;

namespace {

template <class Pairing>
XPos<Pairing> make_xpos(Index rotary_dim, double centre, double factor = 1, Index offset = 0) {
  return XPos<Pairing>(
      posenc::Frequencies::from_inv_freq(rotation::plain_frequencies(rotary_dim), factor),
      {.scale_base = 512, .centre = centre}, offset);
}

/// Returns the scale of pair i of a query (sign 1) or key (-1).
double scale_of(double position, Index pairs, std::size_t i, double centre, double sign) {
  const auto r = 2 * static_cast<double>(pairs);
  return std::pow((2 * static_cast<double>(i) + 0.4 * r) / (1.4 * r),
                  sign * (position - centre) / 512);
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("XPos: equals its reference", "[xpos]", rotation::Scalars) {
  using T = TestType;
  rotation::for_each_pairing([](auto pairing) {
    using Pairing = decltype(pairing);
    support::Random random(1);
    for (const Index rotary_dim : {2, 32, 264}) {
      for (const double m : {1.0, 1.3}) {
        constexpr double centre = 700;
        const auto xpos = make_xpos<Pairing>(rotary_dim, centre, m, 1);
        const auto w = rotation::exact(rotation::plain_frequencies(rotary_dim));
        const auto positions = Positions::starts({0, 1900}, 4);
        auto x = Heads<T>::random(random, 2, 4, 2, rotary_dim + 3);
        for (const bool query : {true, false}) {
          INFO(Pairing::name << ", rotary_dim " << rotary_dim << ", query " << query);
          auto y = x;
          if (query) {
            xpos.rotate_queries(y.view(), positions);
          } else {
            xpos.rotate_keys(y.view(), positions);
          }
          const reference::RopeRule rule{rotation::reference_pairing<Pairing>, 1, m};
          const double worst = rotation::worst_error_of_rows(
              x.view(), y.view(), rule, w.size(),
              [&](Index b, Index s, Index, const std::vector<double>& in) {
                return reference::rotate_by(
                    in, reference::xpos(positions.at(b, s), w, 512, centre, query), rule);
              },
              [&](Index b, Index s, std::size_t i) {
                // The scale's error of 2^-51 has the effect of an angle error.
                return rotation::PairTolerance{
                    m * scale_of(positions.at(b, s), xpos.rotary_dim() / 2, i, centre,
                                 query ? 1 : -1),
                    4e-16 + 0x1p-51};
              });
          CHECK(worst <= 1);

          Heads<T> into(2, 4, 2, rotary_dim + 3, support::layouts().back());
          if (query) {
            xpos.rotate_queries_into(x.view(), into.view(), positions);
          } else {
            xpos.rotate_keys_into(x.view(), into.view(), positions);
          }
          CHECK(support::same_bits(into.view(), y.view()));
          CHECK(into.surroundings_kept());
        }
      }
    }
  });
}

TEST_CASE("XPos: scales are those of its pairs alone", "[xpos]") {
  for (Index count = 1; count <= 20; ++count) {
    support::Guarded<double> in(2 * count), out(2 * count);
    double *ones = in.last(2 * count), *zeros = ones + count;
    double *cos = out.last(2 * count), *sin = cos + count;
    std::fill_n(ones, count, 1.0);
    std::fill_n(zeros, count, 0.0);
    posenc::detail::scale_by_powers(3, ones, zeros, 0.5, ones, ones, cos, sin, count);
    for (Index i = 0; i < 2 * count; ++i) CHECK(cos[i] == 4);  // 2^3 / 2
  }
}

TEST_CASE("XPos: returns its scales", "[xpos]") {
  const auto xpos = make_xpos<posenc::Interleaved>(8, 100);
  CHECK(xpos.scale(100, 2) == 1);
  // 0.4 / 1.4 = 2 / 7 for the first pair.
  CHECK(xpos.scale(612, 0) == Approx(2.0 / 7).epsilon(1e-15));
  CHECK(xpos.scale(100 - 512, 3) == Approx(1.4 * 8 / (6 + 0.4 * 8)).epsilon(1e-15));
  CHECK(xpos.config().scale_base == 512);
  CHECK(xpos.rotary_dim() == 8);
  CHECK(xpos.rotary_offset() == 0);
  CHECK(xpos.frequencies().pairs() == 4);
  CHECK(xpos.softmax_scale_multiplier() == 1);
  const XPos<posenc::HalfRotate> from_rule(posenc::Unscaled{.rotary_dim = 8, .base = 10000},
                                           {.scale_base = 256}, 5);
  CHECK(from_rule.rotary_offset() == 5);
}

TEST_CASE("XPos: at its centre is Rope, bit for bit", "[xpos]") {
  support::Random random(2);
  const auto xpos = make_xpos<posenc::HalfRotate>(16, 41, 1.5);
  const posenc::Rope<posenc::HalfRotate> rope(xpos.frequencies());
  auto x = Heads<float>::random(random, 1, 1, 3, 16);
  auto q = x, k = x;
  rope.rotate(x.view(), Positions::range(41, 1));
  xpos.rotate_queries(q.view(), Positions::range(41, 1));
  xpos.rotate_keys(k.view(), Positions::range(41, 1));
  CHECK(support::same_bits(q.view(), x.view()));
  CHECK(support::same_bits(k.view(), x.view()));
}

TEST_CASE("XPos: without its scales is Rope, bit for bit, at any position", "[xpos]") {
  support::Random random(2);
  const auto xpos = make_xpos<posenc::HalfRotate>(16, 41, 1.5);
  const posenc::Rope<posenc::HalfRotate> rope(xpos.frequencies());
  auto x = Heads<float>::random(random, 2, 5, 3, 16), y = x;
  const auto positions = Positions::range(Index{1} << 30, 5);
  rope.rotate(x.view(), positions);
  xpos.rotate(y.view(), positions);
  CHECK(support::same_bits(x.view(), y.view()));
}

TEMPLATE_TEST_CASE("XPos: decodes the bits of a prefill", "[xpos]", float, double) {
  using T = TestType;
  support::Random random(3);
  const auto xpos = make_xpos<posenc::Interleaved>(32, 0);
  auto q = Heads<T>::random(random, 2, 9, 2, 32), k = Heads<T>::random(random, 2, 9, 2, 32);
  auto whole_q = q, whole_k = k;
  xpos.rotate_queries(whole_q.view(), Positions::range(0, 9));
  xpos.rotate_keys(whole_k.view(), Positions::range(0, 9));
  for (Index s = 0; s < 9; ++s) {
    xpos.rotate_queries(posenc::slice_seq(q.view(), s, 1), Positions::range(s, 1));
    xpos.rotate_keys(posenc::slice_seq(k.view(), s, 1), Positions::range(s, 1));
  }
  CHECK(support::same_bits(q.view(), whole_q.view()));
  CHECK(support::same_bits(k.view(), whole_k.view()));
}

TEST_CASE("XPos: the score decays with the difference alone, whatever the centre", "[xpos]") {
  support::Random random(4);
  const Index dim = 16;
  auto q = Heads<double>::random(random, 1, 1, 1, dim),
       k = Heads<double>::random(random, 1, 1, 1, dim);
  const auto w = rotation::plain_frequencies(dim);
  for (const double centre : {0.0, 1000.0, -3.5}) {
    const auto xpos = make_xpos<posenc::HalfRotate>(dim, centre);
    for (const Index difference : {0, 1, 40, 700}) {
      // Sum over pairs of zeta^(difference / B) times the score of rope.
      double expected = 0, size = 0;
      const auto x = support::row_of(q.view(), 0, 0, 0), y = support::row_of(k.view(), 0, 0, 0);
      for (std::size_t i = 0; i < 8; ++i) {
        const double angle = static_cast<double>(difference) * w[i], c = std::cos(angle),
                     s = std::sin(angle);
        const double decay = scale_of(static_cast<double>(difference), 8, i, 0, 1);
        const double pair =
            (x[i] * y[i] + x[i + 8] * y[i + 8]) * c + (x[i] * y[i + 8] - x[i + 8] * y[i]) * s;
        expected += decay * pair;
        size += decay * std::hypot(x[i], x[i + 8]) * std::hypot(y[i], y[i + 8]);
      }
      for (const Index start : {0, 5, 2000}) {
        auto rq = q, rk = k;
        xpos.rotate_queries(rq.view(), Positions::range(start + difference, 1));
        xpos.rotate_keys(rk.view(), Positions::range(start, 1));
        const double score =
            dot(support::row_of(rq.view(), 0, 0, 0), support::row_of(rk.view(), 0, 0, 0));
        CHECK(std::abs(score - expected) <= 1e-14 * size);
      }
    }
  }
}

TEST_CASE("XPos: checks its settings", "[xpos][errors]") {
  const auto error = [](posenc::XPosConfig settings, Index offset = 0) {
    return message_of<ConfigError>([&] {
      XPos<posenc::HalfRotate>(posenc::Unscaled{.rotary_dim = 8, .base = 10000}, settings, offset);
    });
  };
  CHECK(error({}) == "posenc::XPos: scale_base must be set, positive and finite, but is 0");
  CHECK(error({.scale_base = -1}) ==
        "posenc::XPos: scale_base must be set, positive and finite, but is -1");
  const std::string bounds = "posenc::XPos: scale_base must lie within 1e-100 and 1e100 but is ";
  CHECK(error({.scale_base = 1e-308}) == bounds + "1e-308");
  CHECK(error({.scale_base = 1e308}) == bounds + "1e+308");
  CHECK(error({.scale_base = 512, .centre = std::numeric_limits<double>::infinity()}) ==
        "posenc::XPos: centre must be finite but is inf");
  CHECK(error({.scale_base = 512}, -1) ==
        "posenc::XPos: rotary_offset must not be negative but is -1");
}

TEST_CASE("XPos: every call checks its tensor and positions first", "[xpos][errors]") {
  using View = posenc::HeadsView<float>;
  using Half = XPos<posenc::HalfRotate>;
  struct Call {
    std::string name;
    std::function<void(const Half&, View, const Positions&)> run;
  };
  const std::vector<Call> calls{
      {"rotate_queries", [](const Half& r, View x, const Positions& p) { r.rotate_queries(x, p); }},
      {"rotate_keys", [](const Half& r, View x, const Positions& p) { r.rotate_keys(x, p); }},
      {"rotate_queries_into",
       [](const Half& r, View x, const Positions& p) { r.rotate_queries_into(x, x, p); }},
      {"rotate_keys_into",
       [](const Half& r, View x, const Positions& p) { r.rotate_keys_into(x, x, p); }},
      {"adjoint_queries",
       [](const Half& r, View x, const Positions& p) { r.adjoint_queries(x, p); }},
      {"adjoint_keys", [](const Half& r, View x, const Positions& p) { r.adjoint_keys(x, p); }},
  };
  support::Random random(5);
  auto x = Heads<float>::random(random, 2, 3, 2, 8);
  auto before = x;
  const auto xpos = make_xpos<posenc::HalfRotate>(8, 100);
  for (const Call& call : calls) {
    const std::string name = "posenc::XPos::" + call.name;
    CHECK(message_of<ShapeError>([&] {
            call.run(make_xpos<posenc::HalfRotate>(10, 0), x.view(), Positions::range(0, 3));
          }) ==
          name + ": head_dim (8) must include the rotary channels [0, 10); x is [2, 3, 2, 8]");
    CHECK(message_of<ShapeError>([&] { call.run(xpos, x.view(), Positions::range(0, 4)); }) ==
          name + ": positions [1, 4] must match batch and sequence of x, which is [2, 3, 2, 8]");
    CHECK(message_of<ShapeError>([&] { call.run(xpos, x.view(), Positions::grid(1, 3)); }) ==
          name + ": positions must have 1 axis but have 2");
    const auto far = message_of<PositionError>([&] {
      call.run(xpos, x.view(), Positions::ids({0, 17956, 1}));
    });
    CHECK(far.find(name + ": positions must lie within 17847.") == 0);
    CHECK(far.find(" of the centre 100, but one is 17956") != std::string::npos);
    CHECK(message_of<PositionError>([&] {
            call.run(xpos, x.view(), Positions::ids({0, Index{1} << 51, 1}));
          }).find(name + ": angles must not exceed 2^50 radians") == 0);
    CHECK(support::same_bits(x.view(), before.view()));
  }
}

TEMPLATE_LIST_TEST_CASE("XPos: reaches as far as documented and stays finite there", "[xpos]",
                        rotation::Scalars) {
  using T = TestType;
  const Index reach = std::is_same_v<T, double>        ? 144759
                      : std::is_same_v<T, Eigen::half> ? 1983
                                                       : 17847;
  const auto xpos = make_xpos<posenc::HalfRotate>(8, 0);
  support::Random random(6);
  for (const Index position : {reach, -reach}) {
    auto q = Heads<T>::random(random, 1, 1, 1, 8), k = q;
    xpos.rotate_queries(q.view(), Positions::range(position, 1));
    xpos.rotate_keys(k.view(), Positions::range(position, 1));
    const auto a = support::row_of(q.view(), 0, 0, 0), b = support::row_of(k.view(), 0, 0, 0);
    for (const double value : a) CHECK(std::isfinite(value));
    for (const double value : b) CHECK(std::isfinite(value));
    CHECK_THROWS_AS(
        xpos.rotate_queries(q.view(), Positions::range(position + (position > 0 ? 1 : -1), 1)),
        PositionError);
  }
}

TEST_CASE("XPos: scales are as exact around a centre that is no integer", "[xpos]") {
  for (const double centre : {0.3, -100.0 / 3, 700.0}) {
    const XPos<posenc::HalfRotate> xpos(posenc::Frequencies::from_inv_freq({0.0}),
                                        {.scale_base = 512, .centre = centre});
    for (const double position : {144000.0, -1e5, 0.7}) {
      const auto distance = static_cast<long double>(position) - static_cast<long double>(centre);
      const long double want = std::pow(2.0L / 7, distance / 512);
      const auto error_of = [&](double got) {
        return static_cast<double>(std::abs(static_cast<long double>(got) - want) / want);
      };
      CAPTURE(centre, position);
      CHECK(error_of(xpos.scale(position, 0)) <= promises::xpos_scale.value());
      std::vector<double> q{1, 0}, k{1, 0};
      const auto p = Positions::real({position});
      xpos.rotate_queries(posenc::HeadsView<double>{q.data(), 1, 1, 1, 2}, p);
      xpos.rotate_keys(posenc::HeadsView<double>{k.data(), 1, 1, 1, 2}, p);
      CHECK(error_of(q[0]) <= promises::xpos_scale.value());
      CHECK(error_of(1 / k[0]) <= promises::xpos_scale.value() + 0x1p-53);
    }
  }
}

TEST_CASE("XPos: scales end at infinity and at 0", "[xpos]") {
  const auto xpos = make_xpos<posenc::HalfRotate>(8, 0);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Index wrong = 0;
  for (double position = 3e6; position < 1e308; position *= 1.37) {
    for (Index pair = 0; pair < 4; ++pair) {
      wrong += xpos.scale(-position, pair) == infinity ? 0 : 1;
      wrong += xpos.scale(position, pair) == 0 ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
  CHECK(xpos.scale(-2.54958e19, 0) == infinity);
  CHECK(xpos.scale(infinity, 0) == 0);
  CHECK(std::isnan(xpos.scale(std::nan(""), 0)));
}

TEST_CASE("XPos: a distance that overflows", "[xpos][errors]") {
  const XPos<posenc::HalfRotate> xpos(posenc::Frequencies::from_inv_freq({1e-300}),
                                      {.scale_base = 1e100, .centre = -1.7e308});
  std::vector<double> x{1, 2};
  const posenc::HeadsView<double> view{x.data(), 1, 1, 1, 2};
  const auto far = Positions::real({1.7e308});
  CHECK(message_of<PositionError>([&] {
          xpos.rotate_queries(view, far);
        }).find("posenc::XPos::rotate_queries: positions must lie within ") == 0);
  CHECK(x == std::vector<double>{1, 2});
  xpos.rotate(view, far);  // it has no scale
  std::vector<double> y{1, 2};
  posenc::Rope<posenc::HalfRotate>(xpos.frequencies())
      .rotate(posenc::HeadsView<double>{y.data(), 1, 1, 1, 2}, far);
  CHECK(x == y);
}

}  // namespace xpos_test
