// SPDX-License-Identifier: MIT
// KERPLE's two forms: values, blocks, gradients, bad settings.
#include "reference/kerple.hpp"

#include "bias/tiles.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include "support/throws.hpp"
#include "support/worse.hpp"
#include <posenc/bias/kerple.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace kerple_test {

using posenc::ConfigError;
using posenc::Index;
using posenc::Kerple;
using posenc::KerpleConfig;
using posenc::KerpleForm;
using posenc::MatrixView;
using posenc::ShapeError;
using support::message_of;
using tiles::run;
using tiles::Values;

namespace {

const KerpleConfig logarithmic{
    .form = KerpleForm::Logarithmic, .r1 = {1.3, 0.01, 7}, .r2 = {0.4, 3, 1e-5}};
const KerpleConfig power{.form = KerpleForm::Power, .r1 = {1.3, 0.01, 7}, .r2 = {0.4, 2, 1e-2}};

}  // namespace

TEMPLATE_TEST_CASE("Kerple: a small rate at distances up to twice the largest double", "[kerple]",
                   float, double) {
  using Real = TestType;
  const auto bias_of = [](double rate, double query, double key) {
    const Kerple kerple({.form = KerpleForm::Logarithmic, .r1 = {1}, .r2 = {rate}});
    return tiles::added<Real>(kerple, 0, Values{query}, Values{key})[0];
  };
  // The products are 1/8, 1, 3 and 2^30.
  CHECK(bias_of(0x1p-993, 0x1p600, 0x1p990) == static_cast<Real>(-std::log1p(0.125)));
  CHECK(bias_of(0x1p-1024, 0x1p1023, -0x1p1023) == static_cast<Real>(-std::log(2.0)));
  CHECK(bias_of(0x3p-1024, 0x1p1023, -0x1p1023) == static_cast<Real>(-std::log(4.0)));
  CHECK(bias_of(0x1p-960, 0, 0x1p990) == static_cast<Real>(-std::log1p(0x1p30)));
}

TEMPLATE_TEST_CASE("Kerple: equals the reference", "[kerple]", float, double) {
  using Real = TestType;
  for (const KerpleConfig& config : {logarithmic, power}) {
    const Kerple kerple(config);
    REQUIRE(kerple.heads() == 3);
    const bool is_power = config.form == KerpleForm::Power;
    for (const auto& [queries, keys] : {std::pair<Values, Values>{run(70, 40), run(0, 150)},
                                        {{0, 5, 0.25, 1e6}, {0, 6, -3, 2.5}}}) {
      for (std::size_t h = 0; h < 3; ++h) {
        const auto tile = tiles::added<Real>(kerple, static_cast<Index>(h), queries, keys);
        double worst = 0;
        for (std::size_t i = 0; i < queries.size(); ++i) {
          for (std::size_t j = 0; j < keys.size(); ++j) {
            const double want =
                reference::kerple_bias(is_power, config.r1[h], config.r2[h], queries[i], keys[j]);
            const double exponent = config.r2[h] * std::log(std::abs(queries[i] - keys[j]));
            // 1 ulp is two roundings.
            const double ulps =
                is_power && std::isfinite(exponent) ? 3 + 2 * std::abs(exponent) : 2;
            const double tolerance = support::rounding<Real>(2 * std::abs(want)) +
                                     support::rounding<double>(ulps * std::abs(want));
            const double error = std::abs(static_cast<double>(tile[i * keys.size() + j]) - want);
            worst = support::worse(worst, tolerance == 0 ? error : error / tolerance);
          }
        }
        CAPTURE(is_power, h);
        CHECK(worst <= 1);
      }
    }
  }
}

TEST_CASE("Kerple: adds nothing where query and key meet", "[kerple]") {
  for (const KerpleConfig& config : {logarithmic, power}) {
    for (const Index head : {0, 1, 2}) {
      CHECK(tiles::added<double>(Kerple(config), head, Values{3, 7.5}, Values{3})[0] == 0);
    }
  }
}

TEMPLATE_TEST_CASE("Kerple: scores do not depend on the tile", "[kerple]", float, double) {
  tiles::check_single_scores<TestType>(Kerple(logarithmic), 0);
  tiles::check_single_scores<TestType>(Kerple(power), 2);
}

TEMPLATE_TEST_CASE("Kerple: gradient equals finite differences", "[kerple]", float, double) {
  using Real = TestType;
  const Values queries{3, 4, 8}, keys{0, 1, 2, 3, 9};
  std::vector<Real> grad(15);
  support::Random(4).fill_normal(grad);
  const MatrixView<const Real> view{grad.data(), 3, 5, 5};
  for (const KerpleConfig& config : {logarithmic, power}) {
    const auto loss = [&](const KerpleConfig& at, Index head) {
      const auto tile = tiles::added<double>(Kerple(at), head, queries, keys);
      double sum = 0;
      for (std::size_t i = 0; i < tile.size(); ++i) sum += tile[i] * static_cast<double>(grad[i]);
      return sum;
    };
    // Error of a central difference: h^2 / 6 times the third derivative, and rounding divided by h.
    const double step = 0x1p-17;
    for (const std::size_t h : {0U, 1U, 2U}) {
      const auto head = static_cast<Index>(h);
      auto got = Kerple(config).zero_gradient();
      Kerple(config).add_gradient<Real>(head, queries, keys, view, got);
      const auto difference = [&](std::vector<double> KerpleConfig::*of) {
        KerpleConfig more = config, less = config;
        const double width = step * (config.*of)[h];
        (more.*of)[h] += width;
        (less.*of)[h] -= width;
        return (loss(more, head) - loss(less, head)) / ((more.*of)[h] - (less.*of)[h]);
      };
      CAPTURE(static_cast<int>(config.form), h);
      if (config.form == KerpleForm::Logarithmic || config.r2[h] < 2) {
        CHECK(got.r2[h] == Approx(difference(&KerpleConfig::r2)).epsilon(1e-7).margin(1e-8));
      }
      CHECK(got.r1[h] == Approx(difference(&KerpleConfig::r1)).epsilon(1e-7).margin(1e-8));
    }
  }
}

TEST_CASE("Kerple: checks its settings", "[kerple][errors]") {
  const auto refuse = [](const KerpleConfig& config) {
    return message_of<ConfigError>([&] { Kerple{config}; });
  };
  const auto logarithm = KerpleForm::Logarithmic;
  const std::string name = "posenc::Kerple: ";
  CHECK(refuse({.r1 = {1}, .r2 = {1}}) == name + "form must be set to Logarithmic or Power");
  CHECK(refuse({.form = logarithm}) ==
        name + "r1 and r2 must have a value for each head but have 0 and 0");
  CHECK(refuse({.form = logarithm, .r1 = {1, 2}, .r2 = {1}}) ==
        name + "r1 and r2 must have a value for each head but have 2 and 1");
  CHECK(refuse({.form = logarithm, .r1 = {1, 0}, .r2 = {1, 1}}) ==
        name + "r1 must be positive and finite but one is 0");
  CHECK(refuse({.form = logarithm, .r1 = {1}, .r2 = {-1}}) ==
        name + "r2 must be positive and finite but one is -1");
  CHECK(refuse({.form = logarithm, .r1 = {1}, .r2 = {std::numeric_limits<double>::infinity()}}) ==
        name + "r2 must be positive and finite but one is inf");
  CHECK(refuse({.form = KerpleForm::Power, .r1 = {1}, .r2 = {2.5}}) ==
        name + "r2 must be positive and at most 2 but one is 2.5");
}

TEST_CASE("Kerple: checks head and tile before it writes", "[kerple][errors]") {
  const Kerple kerple(power);
  std::vector<float> scores(6, 5);
  const MatrixView<float> tile{scores.data(), 2, 3, 3};
  const Values two{0, 1}, three{0, 1, 2};
  CHECK(message_of<ShapeError>([&] { kerple.add(3, two, three, tile); }) ==
        "posenc::Kerple::add: head must lie within the 3 heads but is 3");
  CHECK(message_of<ShapeError>([&] { kerple.add(0, three, three, tile); }) ==
        "posenc::Kerple::add: the tile [2, 3] must be queries by keys, 3 by 3");
  auto gradient = kerple.zero_gradient();
  CHECK(message_of<ShapeError>([&] {
          kerple.add_gradient<float>(-1, two, three, tile, gradient);
        }) == "posenc::Kerple::add_gradient: head must lie within the 3 heads but is -1");
  gradient.r2.pop_back();
  CHECK(
      message_of<ShapeError>([&] { kerple.add_gradient<float>(0, two, three, tile, gradient); }) ==
      "posenc::Kerple::add_gradient: gradient must have r1 and r2 for each of the 3 heads but has "
      "3 "
      "and 2");
  CHECK(scores == std::vector<float>(6, 5));
}

TEMPLATE_TEST_CASE("Kerple: power form at positions that are NaN", "[kerple]", float, double) {
  using Real = TestType;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const Kerple kerple(power);
  // More keys than a vector has, beside ordinary ones.
  for (const double query : {3.0, 0.0}) {
    const auto tile = tiles::added<Real>(kerple, 0, Values{query},
                                         Values{1, nan, 2, infinity, 5, -infinity, 1e-3, -nan, 7});
    const auto plain = tiles::added<Real>(kerple, 0, Values{query}, Values{1, nan, 2, -nan, 1e-3});
    for (const std::size_t at : {1U, 7U}) CHECK(std::isnan(tile[at]));
    for (const std::size_t at : {3U, 5U}) CHECK(tile[at] == -std::numeric_limits<Real>::infinity());
    for (const std::size_t at : {1U, 3U}) CHECK(std::isnan(plain[at]));
    for (const std::size_t at : {0U, 2U}) {
      const double want = -1.3 * std::pow(std::abs(query - static_cast<double>(at / 2 + 1)), 0.4);
      CHECK(static_cast<double>(tile[at]) == Approx(want).epsilon(1e-6));
      CHECK(plain[at] == tile[at]);
    }
    CHECK(plain[4] == tile[6]);
  }
  CHECK(std::isnan(tiles::added<Real>(kerple, 0, Values{nan}, Values{1})[0]));
  CHECK(std::isnan(tiles::added<Real>(kerple, 0, Values{infinity}, Values{infinity})[0]));
  CHECK(tiles::added<Real>(kerple, 0, Values{-infinity}, Values{1})[0] ==
        -std::numeric_limits<Real>::infinity());
}

TEST_CASE("Kerple: power form at denormal distances", "[kerple]") {
  const Kerple kerple({.form = KerpleForm::Power, .r1 = {1.5}, .r2 = {0.1}});
  const double least = std::numeric_limits<double>::min();
  for (const double query : {0.0, 1e-310, least, -3 * least}) {
    const Values keys{query, query + 1e-310, query - 5e-324, query + 0.75 * least, query + least,
                      1};
    const auto tile = tiles::added<double>(kerple, 0, Values{query}, keys);
    for (std::size_t at = 0; at < keys.size(); ++at) {
      const double want = -1.5 * std::pow(std::abs(query - keys[at]), 0.1);
      // A relative error of 2^-53 (3 + 2 r2 |ln d|), and the error of std::pow().
      CHECK(std::abs(tile[at] - want) <= 0x1p-53 * (6 + 2 * 0.1 * 745) * std::abs(want));
    }
  }
}

}  // namespace kerple_test
