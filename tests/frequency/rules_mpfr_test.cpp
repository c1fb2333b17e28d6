// SPDX-License-Identifier: MIT
// Every rule against its definition in MPFR: the double-double within 2^-95, the double the nearest.
#ifdef POSENC_HAVE_MPFR

#include "frequency/presets.hpp"
#include "frequency/truth.hpp"
#include "support/catch.hpp"
#include "support/mpfr.hpp"
#include "support/worse.hpp"

#include <cmath>

using posenc::DynamicNtkScaling;
using posenc::Frequencies;
using posenc::frequencies;
using posenc::Index;
using posenc::LinearScaling;
using posenc::NtkScaling;
using posenc::Unscaled;
using posenc::YarnScaling;

namespace {

void check(const Frequencies& ours, const truth::InvFreq& expected) {
  const auto exact = ours.exact_inv_freq();
  const auto rounded = ours.inv_freq();
  REQUIRE(exact.size() == expected.size());
  double largest = 0;
  std::size_t not_nearest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    largest = support::worse(largest, support::relative_error(exact[i], expected[i]));
    if (rounded[i] != static_cast<double>(expected[i])) ++not_nearest;
  }
  CHECK(std::log2(largest) <= -95);
  CHECK(not_nearest == 0);
}

template <class Rule>
void check_rule(const Rule& rule) {
  check(frequencies(rule), truth::inv_freq(rule));
}

}  // namespace

TEST_CASE("Unscaled, linear and NTK rules to 95 bits", "[rules][mpfr]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    check_rule(Unscaled{.rotary_dim = dim, .base = base});
    for (const double factor : {1.1, 4.0, 40.0}) {
      CAPTURE(factor);
      check_rule(LinearScaling{.rotary_dim = dim, .base = base, .factor = factor});
      check_rule(NtkScaling{.rotary_dim = dim, .base = base, .factor = factor});
    }
  }
}

TEST_CASE("dynamic NTK to 95 bits", "[rules][mpfr]") {
  const DynamicNtkScaling rule{
      .rotary_dim = 128, .base = 10000, .factor = 2.3, .original_max_position = 3001};
  for (const Index length : {0, 3001, 3002, 5000, 100000, 1 << 30}) {
    CAPTURE(length);
    check(frequencies(rule, length), truth::inv_freq(rule, length));
  }
}

TEST_CASE("YaRN to 95 bits", "[rules][mpfr]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    for (const double factor : {1.5, 16.0, 64.0}) {
      CAPTURE(factor);
      YarnScaling rule{
          .rotary_dim = dim, .base = base, .factor = factor, .original_max_position = 4096};
      check_rule(rule);
      rule.truncate = false;
      check_rule(rule);
      rule.beta_fast = rule.beta_slow;
      check_rule(rule);
    }
  }
}

TEST_CASE("bases near 1 and large ones", "[rules][mpfr]") {
  for (const double base : {1.0000001, 1.5, 2.0, 1e9, 1e15}) {
    CAPTURE(base);
    check_rule(Unscaled{.rotary_dim = 64, .base = base});
    check_rule(LinearScaling{.rotary_dim = 64, .base = base, .factor = 3});
    check_rule(NtkScaling{.rotary_dim = 64, .base = base, .factor = 3});
  }
}

TEST_CASE("the default attention factor of YaRN is the nearest double", "[rules][mpfr]") {
  for (const double factor : {1.0, 1.5, 4.0, 16.0, 40.0}) {
    CAPTURE(factor);
    const auto ours = frequencies(YarnScaling{
        .rotary_dim = 64, .base = 10000, .factor = factor, .original_max_position = 4096});
    const support::Mpfr expected =
        log(support::Mpfr(factor)) / support::Mpfr(10) + support::Mpfr(1);
    CHECK(ours.attention_factor() == static_cast<double>(expected));
  }
}

#endif
