// SPDX-License-Identifier: MIT
// Biases of finite parameters and positions whose products and differences overflow a double.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/kerple.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace overflowing_biases_test {

using posenc::Alibi;
using posenc::AlibiForm;
using posenc::ConfigError;
using posenc::Fire;
using posenc::Kerple;
using posenc::KerpleForm;
using support::message_of;

namespace {

template <class Real, class Bias>
double added(const Bias& bias, double query, double key) {
  Real score = 0;
  bias.add(0, std::span<const double>(&query, 1), std::span<const double>(&key, 1),
           posenc::MatrixView<Real>{&score, 1, 1, 1});
  return static_cast<double>(score);
}

const std::vector<double> extremes{0,      1,     -1,    1e-300, 5e-324,  1e15,
                                   0x1p53, 1e150, 1e300, -1e300, 1.7e308, -1.7e308};
const std::vector<double> sizes{5e-324, 1e-300, 1e-20, 1, 1e20, 1e300, 1.7e308};

}  // namespace

TEMPLATE_TEST_CASE("bias: finite numbers never give NaN", "[bias]", float, double) {
  int nans = 0;
  const auto look = [&](const auto& bias) {
    for (const double query : extremes) {
      for (const double key : extremes) {
        if (std::isnan(added<TestType>(bias, query, key))) ++nans;
      }
    }
  };
  for (const double a : sizes) {
    for (const double b : sizes) {
      look(Kerple({.form = KerpleForm::Logarithmic, .r1 = {a}, .r2 = {b}}));
      if (b <= 2) look(Kerple({.form = KerpleForm::Power, .r1 = {a}, .r2 = {b}}));
      for (const AlibiForm form : {AlibiForm::Causal, AlibiForm::Symmetric}) {
        try {
          look(Alibi({a}, form, b));
        } catch (const ConfigError&) {
        }
      }
      try {
        look(Fire({.c = a,
                   .threshold = b,
                   .hidden_weight = {1, -1, 1e-300},
                   .hidden_bias = {-0.5, 1e-300, -1},
                   .output_weight = {1, 1, 1},
                   .output_bias = {0}}));
      } catch (const ConfigError&) {
      }
    }
  }
  look(Alibi({0}, AlibiForm::Causal));
  CHECK(nans == 0);
}

TEST_CASE("bias: a far key is noticed wherever it is among near ones", "[bias]") {
  constexpr double query = 0, far = 1.7e308;
  const Kerple logarithmic({.form = KerpleForm::Logarithmic, .r1 = {1}, .r2 = {1e300}});
  const Kerple power({.form = KerpleForm::Power, .r1 = {1e-300}, .r2 = {2}});
  const auto check = [&](const Kerple& bias) {
    for (std::size_t place = 0; place < 40; ++place) {
      std::vector<double> keys(40, 1.0), scores(40);
      keys[place] = far;
      bias.add(0, std::span<const double>(&query, 1), keys,
               posenc::MatrixView<double>{scores.data(), 1, 40, 40});
      CHECK(scores[place] == added<double>(bias, query, far));
    }
  };
  check(logarithmic);
  check(power);
}

TEST_CASE("bias: far keys have the right values", "[bias]") {
  const Kerple logarithmic({.form = KerpleForm::Logarithmic, .r1 = {1}, .r2 = {1e300}});
  CHECK(added<double>(logarithmic, 1e15, 0) == Approx(-315 * std::log(10)).epsilon(1e-15));
  CHECK(added<double>(logarithmic, 1.7e308, -1.7e308) ==
        Approx(-(std::log(1e300) + std::log(1.7e308) + std::log(2))).epsilon(1e-15));
  const Kerple power({.form = KerpleForm::Power, .r1 = {1e-300}, .r2 = {2}});
  CHECK(added<double>(power, 1e200, 0) == Approx(-1e100).epsilon(1e-12));
  CHECK(added<double>(Alibi({1e-100}, AlibiForm::Causal), 1.5e308, -1.5e308) ==
        Approx(-3e208).epsilon(1e-15));
  CHECK(added<double>(Alibi({0}, AlibiForm::Causal), 1.5e308, -1.5e308) == 0);
  CHECK(added<float>(Alibi({1e-260}, AlibiForm::Symmetric), -1.5e308, 1.5e308) ==
        -std::numeric_limits<double>::infinity());
}

TEST_CASE("bias: a key near the query has its value beside one that overflows", "[alibi]") {
  const Alibi alibi({1e200}, AlibiForm::Symmetric);
  const double query = 4, infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> keys{0, 1e200, 2};
  std::vector<double> scores(3);
  alibi.add(0, std::span(&query, 1), std::span(keys),
            posenc::MatrixView<double>{scores.data(), 1, 3});
  CHECK(scores == std::vector<double>{-4e200, -infinity, -2e200});
}

TEST_CASE("Kerple: logarithm in double where a search found it off", "[kerple]") {
  const auto of = [](double r1, double r2, double distance) {
    return added<double>(Kerple({.form = KerpleForm::Logarithmic, .r1 = {r1}, .r2 = {r2}}),
                         distance, 0);
  };
  const auto want = [](double r1, double r2, double distance) {
    const auto product = static_cast<long double>(r2) * static_cast<long double>(distance);
    return static_cast<double>(-static_cast<long double>(r1) * std::log1p(product));
  };
  for (const auto& [r1, r2, d] :
       {std::array{0.10173720059594915, 0.0016394389592601255, 0.17984440371916047},
        {0x1.3f91cb69aa845p-5, 0x1.2984bd837fc89p-343, 0x1.0f73277dc890bp+638},
        {1.0, 1.0, 1.3 * 0x1p-52},
        {1.0, 1.0, 0x1p-60}}) {
    CAPTURE(r1, r2, d);
    const double exact = want(r1, r2, d);
    CHECK(std::abs(of(r1, r2, d) - exact) <=
          std::nextafter(std::abs(exact), 2 * std::abs(exact)) - std::abs(exact));
  }
}

TEST_CASE("Alibi and Fire: reject settings that no score could hold", "[bias][errors]") {
  CHECK(message_of<ConfigError>([] { Alibi({1e200}, AlibiForm::Causal, 1e200); }) ==
        "posenc::Alibi: scale times slope must be 0 or of a magnitude from 2^-900 to the largest "
        "double, but they are 1e+200 and 1e+200");
  const posenc::FireParameters good{.c = 1,
                                    .threshold = 1,
                                    .hidden_weight = {1},
                                    .hidden_bias = {0},
                                    .output_weight = {1},
                                    .output_bias = {0}};
  auto bad = good;
  bad.c = 1e-30;
  const std::string name = "posenc::Fire: ";
  CHECK(message_of<ConfigError>([&] { Fire(bad, 0); }) ==
        name + "ln(1 + c threshold) + epsilon must be at least 2^-60 but is 1e-30");
  CHECK(message_of<ConfigError>([&] { Fire(good, 1e30); }) ==
        name + "epsilon must not exceed 1e20 but is 1e+30");
  bad = good;
  bad.output_weight = {1e16};
  CHECK(message_of<ConfigError>([&] { Fire{bad}; }) ==
        name +
            "width times the greatest product of weights must not exceed 1e15 but the product is "
            "1e+16");
}

}  // namespace overflowing_biases_test
