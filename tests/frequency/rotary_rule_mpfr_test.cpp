// SPDX-License-Identifier: MIT
// Every rule against its definition in MPFR: the double-double is within 2^-95, the double is the
// nearest.
#ifdef POSENC_HAVE_MPFR

#include "frequency/presets.hpp"
#include "frequency/random_rules.hpp"
#include "frequency/truth.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/mpfr.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"

#include <cmath>
#include <vector>

namespace rotary_rule_mpfr_test {

using namespace posenc;  // NOLINT: every rule there is
using support::Mpfr;

namespace {

void check(const Frequencies& ours, const truth::InvFreq& expected) {
  const auto exact = posenc::detail::exact_inv_freq(ours);
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

template <class Rule, class... Length>
void check_rule(const Rule& rule, Length... length) {
  check(frequencies(rule, length...), truth::inv_freq(rule, length...));
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("RotaryRule: every rule to 95 bits at random settings", "[rules][mpfr]",
                        random_rules::All) {
  support::Random random(71);
  for (int i = 0; i < 8; ++i) {
    const auto rule = random_rules::drawn<TestType>(random);
    const Index length = random.integer(0, 1 << 20);
    CAPTURE(i, length);
    if constexpr (LengthFrequencyRule<TestType>) {
      check_rule(rule, length);
    } else {
      check_rule(rule);
    }
  }
}

TEST_CASE("RotaryRule: Unscaled, linear and NTK rules to 95 bits", "[rules][mpfr]") {
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

TEST_CASE("DynamicNtkScaling: to 95 bits", "[rules][mpfr]") {
  const DynamicNtkScaling rule{
      .rotary_dim = 128, .base = 10000, .factor = 2.3, .original_max_position = 3001};
  for (const Index length : {0, 3001, 3002, 5000, 100000, 1 << 30}) {
    CAPTURE(length);
    check(frequencies(rule, length), truth::inv_freq(rule, length));
  }
}

TEST_CASE("YarnScaling: to 95 bits", "[rules][mpfr]") {
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

TEST_CASE("RotaryRule: the other NTK rules to 95 bits", "[rules][mpfr]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    for (const double factor : {1.1, 4.0, 1000.0}) {
      CAPTURE(factor);
      check_rule(AlphaNtkScaling{.rotary_dim = dim, .base = base, .alpha = factor});
      check_rule(VllmNtkScaling{.rotary_dim = dim, .base = base, .factor = factor});
      for (const double b : {0.1, 0.625, 1.0, 7.5, 1000.0}) {
        CAPTURE(b);
        check_rule(
            VllmMixedNtkScaling{.rotary_dim = dim, .base = base, .factor = factor, .mixed_b = b});
      }
    }
    for (const Index length : {0, 4096, 4097, 10000, 1 << 30}) {
      CAPTURE(length);
      check_rule(
          DynamicNtkScaling{
              .rotary_dim = dim, .base = base, .factor = 1, .original_max_position = 4096},
          length);
    }
  }
}

TEST_CASE("RotaryRule: ramps over rotations to 95 bits", "[rules][mpfr]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    for (const double factor : {1.5, 8.0, 40.0}) {
      CAPTURE(factor);
      Llama3Scaling llama3{.rotary_dim = dim,
                           .base = base,
                           .factor = factor,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4,
                           .original_max_position = 8192};
      check_rule(llama3);
      llama3.high_freq_factor = 1;
      check_rule(llama3);
      check_rule(NtkByPartsScaling{
          .rotary_dim = dim, .base = base, .factor = factor, .original_max_position = 4096});
    }
  }
}

TEST_CASE("RotaryRule: ramps over the pair index to 95 bits", "[rules][mpfr]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    for (const double factor : {1.5, 8.0, 40.0}) {
      CAPTURE(factor);
      check_rule(TwoRampNtkScaling{
          .rotary_dim = dim, .base = base, .factor = factor, .original_max_position = 2048});
    }
    DynamicYarnScaling yarn{.rotary_dim = dim, .base = base, .original_max_position = 4096};
    for (const Index length : {0, 4096, 4097, 10000, 1 << 20}) {
      CAPTURE(length);
      yarn.finetuned_max_position.reset();
      check_rule(yarn, length);
      yarn.finetuned_max_position = 7001;
      check_rule(yarn, length);
    }
  }
}

TEST_CASE("RotaryRule: divisors and frequencies left out to 95 bits", "[rules][mpfr]") {
  support::Random random(61);
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    std::vector<double> few, many;
    for (Index i = 0; i < dim / 2; ++i) {
      few.push_back(random.uniform(1, 3));
      many.push_back(random.uniform(0.5, 80));
    }
    check_rule(DivisorScaling{.rotary_dim = dim, .base = base, .divisors = many});
    for (const Index length : {4096, 4097}) {
      check_rule(LongRopeScaling{.rotary_dim = dim,
                                 .base = base,
                                 .short_factor = few,
                                 .long_factor = many,
                                 .original_max_position = 4096,
                                 .factor = 32},
                 length);
    }
    for (const double share : {0.25, 0.7, 1.0}) {
      check_rule(ProportionalScaling{
          .head_dim = dim, .base = base, .partial_rotary_factor = share, .factor = 3});
    }
  }
}

TEST_CASE("RotaryRule: bases near 1 and large ones", "[rules][mpfr]") {
  for (const double base : {1.0000001, 1.5, 2.0, 1e9, 1e15}) {
    CAPTURE(base);
    check_rule(Unscaled{.rotary_dim = 64, .base = base});
    check_rule(LinearScaling{.rotary_dim = 64, .base = base, .factor = 3});
    check_rule(NtkScaling{.rotary_dim = 64, .base = base, .factor = 3});
  }
}

namespace {

/// Returns k ln(factor) / 10 + 1.
Mpfr magnitude(double factor, double k = 1) {
  return Mpfr(k) * log(Mpfr(factor)) / Mpfr(10) + Mpfr(1);
}

}  // namespace

TEST_CASE("YarnScaling: magnitudes are the nearest doubles", "[rules][mpfr]") {
  for (const double factor : {1.0, 1.5, 4.0, 16.0, 40.0}) {
    CAPTURE(factor);
    YarnScaling rule{
        .rotary_dim = 64, .base = 10000, .factor = factor, .original_max_position = 4096};
    CHECK(frequencies(rule).attention_factor() == static_cast<double>(magnitude(factor)));
    rule.mscale = 0.9;
    rule.mscale_all_dim = 0.707;
    const Mpfr all_dim = magnitude(factor, 0.707);
    CHECK(frequencies(rule).attention_factor() ==
          static_cast<double>(magnitude(factor, 0.9) / all_dim));
    CHECK(frequencies(rule).softmax_scale_multiplier() == static_cast<double>(all_dim * all_dim));
  }
}

TEST_CASE("LongRopeScaling: the attention factor is the nearest double", "[rules][mpfr]") {
  for (const double factor : {1.0, 1.5, 4.0, 32.0, 64.0}) {
    CAPTURE(factor);
    const LongRopeScaling rule{.rotary_dim = 2,
                               .base = 10000,
                               .short_factor = {1},
                               .long_factor = {1},
                               .original_max_position = 4096,
                               .factor = factor};
    const Mpfr expected = sqrt(Mpfr(1) + log(Mpfr(factor)) / log(Mpfr(4096)));
    CHECK(frequencies(rule, 0).attention_factor() == static_cast<double>(expected));
  }
}

}  // namespace rotary_rule_mpfr_test

#endif
