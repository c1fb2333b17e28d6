// SPDX-License-Identifier: MIT
// FIRE: values, cuts, gradients, bad settings.
#include "reference/fire.hpp"

#include "bias/tiles.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/guarded.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/throws.hpp"
#include "support/worse.hpp"
#include <posenc/bias/fire.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace fire_test {

using posenc::ConfigError;
using posenc::Fire;
using posenc::FireParameters;
using posenc::Index;
using posenc::MatrixView;
using posenc::ShapeError;
using support::message_of;
using tiles::run;
using tiles::Values;

namespace {

FireParameters random_parameters(std::uint64_t seed, std::size_t width, std::size_t heads,
                                 double threshold) {
  FireParameters p{.c = 0.1,
                   .threshold = threshold,
                   .hidden_weight = Values(width),
                   .hidden_bias = Values(width),
                   .output_weight = Values(heads * width),
                   .output_bias = Values(heads)};
  support::Random random(seed);
  for (Values* values : {&p.hidden_weight, &p.hidden_bias, &p.output_weight, &p.output_bias}) {
    random.fill_uniform(*values, -1, 1);
  }
  return p;
}

}  // namespace

TEMPLATE_TEST_CASE("Fire: equals the reference", "[fire]", float, double) {
  using Real = TestType;
  for (const std::size_t width : {1U, 5U, 32U}) {
    const FireParameters p = random_parameters(width, width, 3, 64);
    const Fire fire(p);
    REQUIRE(fire.heads() == 3);
    // Below and above the threshold, keys after the query, and positions before the start.
    for (const auto& [queries, keys] : {std::pair<Values, Values>{run(40, 45), run(0, 150)},
                                        {{0, 5, 0.25, 1e6, -9}, {0, 6, -3, 2.5, 2e6}}}) {
      for (std::size_t h = 0; h < 3; ++h) {
        const auto tile = tiles::added<Real>(fire, static_cast<Index>(h), queries, keys);
        double worst = 0;
        for (std::size_t i = 0; i < queries.size(); ++i) {
          for (std::size_t j = 0; j < keys.size(); ++j) {
            const double want = reference::fire_bias(p, 1e-6, h, queries[i], keys[j]);
            const double size = reference::fire_magnitude(p, 1e-6, h, queries[i], keys[j]);
            // An ulp is two roundings. The reference adds some roundings of double.
            const double roundings = 2 * (static_cast<double>(width) + 4);
            const double tolerance = support::rounding<Real>(roundings * size) +
                                     support::rounding<double>((roundings + 8) * size);
            const double error = std::abs(static_cast<double>(tile[i * keys.size() + j]) - want);
            worst = support::worse(worst, error / tolerance);
          }
        }
        CAPTURE(width, h);
        CHECK(worst <= 1);
      }
    }
  }
}

TEST_CASE("Fire: reads only the positions that it is given", "[fire]") {
  const Fire fire(random_parameters(3, 8, 1, 4));
  const Values values = run(20, 21);
  support::Guarded<double> memory(21);
  for (const Index count : {1, 8, 11, 21}) {
    double* const queries = memory.last(count);
    std::copy_n(values.begin(), count, queries);
    const auto whole = tiles::added<float>(
        fire, 0, std::span<const double>(queries, static_cast<std::size_t>(count)), run(0, 5));
    for (Index i = 0; i < count; ++i) {
      const auto row = tiles::added<float>(fire, 0, Values{queries[i]}, run(0, 5));
      CHECK(std::equal(row.begin(), row.end(), whole.begin() + 5 * i));
    }
  }
}

TEST_CASE("Fire: units are the numbers of its lists", "[fire]") {
  support::Guarded<double> weight(2), bias(2);
  const double *w = std::copy_n(Values{1, -2}.begin(), 2, weight.last(2)) - 2,
               *b = std::copy_n(Values{-0.5, 1.5}.begin(), 2, bias.last(2)) - 2;
  const posenc::detail::ReluSegments segments(posenc::ListView<double>(w, 2),
                                              posenc::ListView<double>(b, 2));
  CHECK(segments.count() == 3);
  CHECK(segments.active_segments(0).first == 1);
  CHECK(segments.active_segments(0).end == 3);
  CHECK(segments.active_segments(1).first == 0);
  CHECK(segments.active_segments(1).end == 2);
}

TEST_CASE("Fire: epsilon is added to the normaliser", "[fire]") {
  const FireParameters p = random_parameters(1, 8, 1, 4);
  const double bias = tiles::added<double>(Fire(p, 0.5), 0, Values{9}, Values{2})[0];
  CHECK(bias == Approx(reference::fire_bias(p, 0.5, 0, 9, 2)).epsilon(1e-13));
  CHECK(bias != Approx(reference::fire_bias(p, 1e-6, 0, 9, 2)).epsilon(1e-6));
}

TEMPLATE_TEST_CASE("Fire: scores do not depend on the tile", "[fire]", float, double) {
  tiles::check_single_scores<TestType>(Fire(random_parameters(7, 32, 2, 512)), 1);
  tiles::check_single_scores<TestType>(Fire(random_parameters(8, 16, 1, 10)), 0);
}

TEMPLATE_TEST_CASE("Fire: gradient equals finite differences", "[fire]", float, double) {
  using Real = TestType;
  const FireParameters p = random_parameters(11, 6, 2, 5.5);
  const Values queries{3, 4, 8, 20}, keys{0, 1, 2, 3, 9};
  std::vector<Real> grad(20);
  support::Random(4).fill_normal(grad);
  constexpr std::size_t head = 1;
  const auto loss = [&](const FireParameters& at) {
    double sum = 0;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      for (std::size_t j = 0; j < keys.size(); ++j) {
        sum += reference::fire_bias(at, 1e-6, head, queries[i], keys[j]) *
               static_cast<double>(grad[i * keys.size() + j]);
      }
    }
    return sum;
  };
  // Earlier contents of the gradient are kept.
  FireParameters got = Fire(p).zero_gradient();
  got.c = 100;
  got.output_bias[0] = 7;
  Fire(p).add_gradient<Real>(head, queries, keys, MatrixView<const Real>{grad.data(), 4, 5, 5},
                             got);
  got.c -= 100;
  const auto check = [&](double& parameter, const FireParameters& more_or_less, double gradient) {
    const double middle = parameter, step = 0x1p-20;
    parameter = middle + step;
    const double more = loss(more_or_less);
    parameter = middle - step;
    const double less = loss(more_or_less);
    parameter = middle;
    CHECK(gradient == Approx((more - less) / (2 * step)).epsilon(1e-7).margin(1e-8));
  };
  FireParameters moved = p;
  check(moved.c, moved, got.c);
  check(moved.threshold, moved, got.threshold);
  const auto check_all = [&](Values FireParameters::*of) {
    for (std::size_t i = 0; i < (p.*of).size(); ++i) {
      CAPTURE(i);
      if (of == &FireParameters::output_bias && i != head) {
        CHECK((got.*of)[i] == 7);
      } else {
        check((moved.*of)[i], moved, (got.*of)[i]);
      }
    }
  };
  check_all(&FireParameters::hidden_weight);
  check_all(&FireParameters::hidden_bias);
  check_all(&FireParameters::output_weight);
  check_all(&FireParameters::output_bias);
}

TEST_CASE("Fire: checks its settings", "[fire][errors]") {
  const FireParameters good = random_parameters(1, 4, 2, 512);
  const auto refuse = [&](const auto& spoil) {
    FireParameters bad = good;
    spoil(bad);
    return message_of<ConfigError>([&] { Fire{bad}; });
  };
  const std::string name = "posenc::Fire: ";
  CHECK(refuse([](auto& p) { p.c = 0; }) == name + "c must be set, positive and finite, but is 0");
  CHECK(refuse([](auto& p) { p.threshold = -1; }) ==
        name + "threshold must be set, positive and finite, but is -1");
  CHECK(refuse([](auto& p) { p.hidden_bias.push_back(1); }) ==
        name +
            "hidden_weight and hidden_bias must be [width], output_weight [heads, width] and "
            "output_bias [heads] but have 4, 5, 8 and 2 values");
  CHECK(refuse([](auto& p) { p.hidden_bias.clear(); }) ==
        name +
            "hidden_weight and hidden_bias must be [width], output_weight [heads, width] and "
            "output_bias [heads] but have 4, 0, 8 and 2 values");
  CHECK(refuse([](auto& p) { p.output_weight[3] = std::numeric_limits<double>::quiet_NaN(); }) ==
        name + "weights must be finite but one is nan");
  CHECK(message_of<ConfigError>([&] { Fire(good, -1); }) ==
        name + "epsilon must be finite and not negative but is -1");
}

TEMPLATE_TEST_CASE("Fire: a position that is NaN reaches its key alone", "[fire]", float, double) {
  using T = TestType;
  const Fire fire(random_parameters(1, 8, 1, 100));
  for (const double odd :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    for (const std::size_t at : {0u, 7u, 13u}) {
      Values keys(14);
      for (std::size_t j = 0; j < keys.size(); ++j) keys[j] = 2516 + static_cast<double>(j);
      keys[at] = odd;
      std::vector<T> together(keys.size()), alone(keys.size());
      const Values query{618};
      fire.add(0, query, keys, MatrixView<T>{together.data(), 1, 14, 14});
      for (std::size_t j = 0; j < keys.size(); ++j) {
        fire.add(0, query, Values{keys[j]}, MatrixView<T>{&alone[j], 1, 1, 1});
      }
      INFO(odd << " at " << at);
      for (std::size_t j = 0; j < keys.size(); ++j) {
        if (j != at) CHECK(support::same_bits(&together[j], &alone[j], 1));
      }
    }
  }
}

TEST_CASE("Fire: checks head, tile and gradient before it writes", "[fire][errors]") {
  const Fire fire(random_parameters(1, 4, 2, 512));
  std::vector<float> scores(6, 5);
  const MatrixView<float> tile{scores.data(), 2, 3, 3};
  const Values two{0, 1}, three{0, 1, 2};
  CHECK(message_of<ShapeError>([&] { fire.add(2, two, three, tile); }) ==
        "posenc::Fire::add: head must lie within the 2 heads but is 2");
  CHECK(message_of<ShapeError>([&] { fire.add(0, three, three, tile); }) ==
        "posenc::Fire::add: the tile [2, 3] must be queries by keys, 3 by 3");
  FireParameters gradient;
  CHECK(message_of<ShapeError>([&] { fire.add_gradient<float>(0, two, three, tile, gradient); }) ==
        "posenc::Fire::add_gradient: gradient must have the shape of the parameters, width 4 "
        "and 2 heads");
  CHECK(scores == std::vector<float>(6, 5));
}

}  // namespace fire_test
