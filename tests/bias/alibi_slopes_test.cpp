// SPDX-License-Identifier: MIT
// Slopes of ALiBi, against the reference and against lists typed from the rule.
#include "reference/alibi.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/throws.hpp"
#include <posenc/bias/alibi.hpp>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace alibi_slopes_test {

using posenc::alibi_slopes;
using posenc::ConfigError;
using posenc::Index;
using support::message_of;

namespace {

/// Returns 2^-e for each exponent e.
std::vector<double> powers_of_half(const std::vector<double>& exponents) {
  std::vector<double> powers;
  for (const double e : exponents) powers.push_back(std::pow(2.0, -e));
  return powers;
}

/// True if the lists agree; exp2 and pow are accurate to 1 ulp each.
bool agree(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (support::ulp_distance(a[i], b[i]) > 2) return false;
  }
  return true;
}

std::vector<double> joined(std::vector<double> a, const std::vector<double>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Returns step, 2 step, 3 step, ... or, with by = 2, step, 3 step, 5 step, ....
std::vector<double> multiples(double step, int count, int by = 1) {
  std::vector<double> exponents;
  for (int i = 0; i < count; ++i) exponents.push_back(step * (1 + by * i));
  return exponents;
}

}  // namespace

TEST_CASE("alibi_slopes: equal the reference for 1 to 199 heads", "[alibi]") {
  for (Index heads = 1; heads < 200; ++heads) {
    for (const double max_bias : {8.0, 4.0, 16.0, 7.3}) {
      INFO(heads << " heads, max_bias " << max_bias);
      CHECK(agree(alibi_slopes(heads, max_bias), reference::alibi_slopes(heads, max_bias)));
    }
  }
}

TEST_CASE("alibi_slopes: known models", "[alibi]") {
  CHECK(alibi_slopes(1) == std::vector<double>{1.0 / 256});
  CHECK(alibi_slopes(8) == std::vector<double>{1.0 / 2, 1.0 / 4, 1.0 / 8, 1.0 / 16, 1.0 / 32,
                                               1.0 / 64, 1.0 / 128, 1.0 / 256});
  // The first 8 slopes are those of 8 heads, then 2^-0.5, 2^-1.5, 2^-2.5, 2^-3.5 of 16 heads: not
  // sorted.
  CHECK(agree(alibi_slopes(12), {0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625,
                                 0.70710678118654752, 0.35355339059327376, 0.17677669529663688,
                                 0.088388347648318441}));
  // 32 heads in steps of 1/4, then every other one of 64 heads, in steps of 1/8.
  CHECK(
      agree(alibi_slopes(40), powers_of_half(joined(multiples(0.25, 32), multiples(0.125, 8, 2)))));
  // 64 heads in steps of 1/8, then every other one of 128 heads, in steps of 1/16.
  CHECK(agree(alibi_slopes(71),
              powers_of_half(joined(multiples(0.125, 64), multiples(0.0625, 7, 2)))));
  CHECK(alibi_slopes(40)[39] == Approx(std::pow(2.0, -1.875)).epsilon(1e-15));
  CHECK(alibi_slopes(71)[70] == Approx(std::pow(2.0, -0.8125)).epsilon(1e-15));
}

TEST_CASE("alibi_slopes: max_bias is the exponent of the smallest slope of a power of two",
          "[alibi]") {
  CHECK(alibi_slopes(4, 4) == std::vector<double>{0.5, 0.25, 0.125, 0.0625});
  CHECK(alibi_slopes(4, 16) == std::vector<double>{0x1p-4, 0x1p-8, 0x1p-12, 0x1p-16});
  CHECK(agree(alibi_slopes(3, 16), {0x1p-8, 0x1p-16, 0x1p-4}));
  CHECK(posenc::Alibi({.heads = 4, .form = posenc::AlibiForm::Causal, .max_bias = 16}).slopes() ==
        alibi_slopes(4, 16));
}

TEST_CASE("alibi_slopes: need heads and a positive max_bias", "[alibi][errors]") {
  const std::string name = "posenc::alibi_slopes: ";
  CHECK(message_of<ConfigError>([] { alibi_slopes(0); }) ==
        name + "heads must be set and positive but is 0");
  CHECK(message_of<ConfigError>([] { alibi_slopes(-3); }) ==
        name + "heads must be set and positive but is -3");
  CHECK(message_of<ConfigError>([] { alibi_slopes((1 << 24) + 1); }) ==
        name + "heads must not exceed 2^24 but is 16777217");
  CHECK(message_of<ConfigError>([] { alibi_slopes(8, 0); }) ==
        name + "max_bias must be positive and finite but is 0");
  CHECK(message_of<ConfigError>([] { alibi_slopes(8, std::numeric_limits<double>::infinity()); }) ==
        name + "max_bias must be positive and finite but is inf");
}

}  // namespace alibi_slopes_test
