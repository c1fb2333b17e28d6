// SPDX-License-Identifier: MIT
// Settings that the rules reject, field by field, and the error messages.
#include "frequency/rejections.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/rotary_rule.hpp>

#include <optional>
#include <string>
#include <vector>

namespace rotary_rule_errors_test {

using namespace posenc;      // NOLINT: every rule there is
using namespace rejections;  // NOLINT: every check of a rejection

TEST_CASE("Unscaled refuses bad settings", "[rules]") {
  check_shared_fields(Unscaled{.rotary_dim = 8, .base = 10000}, 2);
}

TEST_CASE("LinearScaling refuses bad settings", "[rules]") {
  const LinearScaling rule{.rotary_dim = 8, .base = 10000, .factor = 2};
  check_shared_fields(rule, 2);
  check_factor(rule);
}

TEST_CASE("NtkScaling refuses bad settings", "[rules]") {
  const NtkScaling rule{.rotary_dim = 8, .base = 10000, .factor = 2};
  check_shared_fields(rule, 4);
  check_factor(rule);
}

TEST_CASE("DynamicNtkScaling refuses bad settings", "[rules]") {
  const DynamicNtkScaling rule{
      .rotary_dim = 8, .base = 10000, .factor = 2, .original_max_position = 2048};
  check_shared_fields(rule, 4);
  check_factor(rule);
  check_length(rule);
}

TEST_CASE("YarnScaling refuses bad settings", "[rules]") {
  const YarnScaling rule{
      .rotary_dim = 8, .base = 10000, .factor = 2, .original_max_position = 2048};
  check_shared_fields(rule, 2);
  check_factor(rule);
  check_length(rule);
  const std::string betas =
      "YarnScaling: 1e30 >= beta_fast >= beta_slow >= 1e-30 must hold but they are ";
  check_rejected(rule, &YarnScaling::beta_slow, 0.0, betas + "32 and 0");
  check_rejected(rule, &YarnScaling::beta_slow, -1.0, betas + "32 and -1");
  check_rejected(rule, &YarnScaling::beta_slow, not_a_number, betas + "32 and nan");
  check_rejected(rule, &YarnScaling::beta_slow, 33.0, betas + "32 and 33");
  check_rejected(rule, &YarnScaling::beta_fast, 0.5, betas + "0.5 and 1");
  check_rejected(rule, &YarnScaling::beta_fast, infinity, betas + "inf and 1");
  check_rejected(rule, &YarnScaling::beta_fast, not_a_number, betas + "nan and 1");
}

TEST_CASE("YarnScaling refuses magnitudes that contradict each other", "[rules]") {
  const YarnScaling rule{
      .rotary_dim = 8, .base = 10000, .factor = 2, .original_max_position = 2048};
  using Optional = std::optional<double>;
  YarnScaling deepseek = rule;
  deepseek.mscale = deepseek.mscale_all_dim = 0.707;
  check_rejected(
      deepseek, &YarnScaling::attention_factor, Optional(1.25),
      "YarnScaling: mscale and attention_factor contradict each other: they are 0.707 and 1.25");
  check_rejected(deepseek, &YarnScaling::mscale_all_dim, Optional(),
                 "YarnScaling: mscale needs mscale_all_dim; it is 0.707");
  check_rejected(deepseek, &YarnScaling::mscale, Optional(),
                 "YarnScaling: mscale_all_dim needs mscale or attention_factor; it is 0.707");
  const std::string finite = " must be finite and not negative but is ";
  check_rejected(deepseek, &YarnScaling::mscale, Optional(-1),
                 "YarnScaling: mscale" + finite + "-1");
  check_rejected(deepseek, &YarnScaling::mscale, Optional(not_a_number),
                 "YarnScaling: mscale" + finite + "nan");
  check_rejected(deepseek, &YarnScaling::mscale_all_dim, Optional(infinity),
                 "YarnScaling: mscale_all_dim" + finite + "inf");
  check_rejected(rule, &YarnScaling::attention_factor, Optional(0),
                 "Frequencies: attention_factor must be positive and finite but is 0");
}

TEST_CASE("DynamicYarnScaling refuses bad settings", "[rules]") {
  const DynamicYarnScaling rule{.rotary_dim = 8, .base = 10000, .original_max_position = 2048};
  check_shared_fields(rule, 2);
  check_length(rule);
  check_rejected(
      rule, &DynamicYarnScaling::beta_slow, 33.0,
      "DynamicYarnScaling: 1e30 >= beta_fast >= beta_slow >= 1e-30 must hold but they are 32 "
      "and 33");
  check_rejected(
      rule, &DynamicYarnScaling::beta_fast, 0.5,
      "DynamicYarnScaling: 1e30 >= beta_fast >= beta_slow >= 1e-30 must hold but they are 0.5 "
      "and 1");
  check_rejected(
      rule, &DynamicYarnScaling::finetuned_max_position, std::optional<Index>(2047),
      "DynamicYarnScaling: finetuned_max_position must not be less than 2048 but is 2047");
}

TEST_CASE("AlphaNtkScaling refuses bad settings", "[rules]") {
  const AlphaNtkScaling rule{.rotary_dim = 8, .base = 10000, .alpha = 1000};
  check_shared_fields(rule, 4);
  check_at_least_1(rule, &AlphaNtkScaling::alpha,
                   "AlphaNtkScaling: alpha must be given, finite and at least 1, but is ");
}

TEST_CASE("VllmNtkScaling refuses bad settings", "[rules]") {
  const VllmNtkScaling rule{.rotary_dim = 8, .base = 10000, .factor = 2};
  check_shared_fields(rule, 2);
  check_factor(rule);
}

TEST_CASE("VllmMixedNtkScaling refuses bad settings", "[rules]") {
  const VllmMixedNtkScaling rule{.rotary_dim = 8, .base = 10000, .factor = 2, .mixed_b = 0.625};
  check_shared_fields(rule, 2);
  check_factor(rule);
  const std::string mixed_b =
      "VllmMixedNtkScaling: mixed_b must be given and lie in (0, 1000] but is ";
  check_rejected(rule, &VllmMixedNtkScaling::mixed_b, 0.0, mixed_b + "0");
  check_rejected(rule, &VllmMixedNtkScaling::mixed_b, -1.0, mixed_b + "-1");
  check_rejected(rule, &VllmMixedNtkScaling::mixed_b, 1001.0, mixed_b + "1001");
  check_rejected(rule, &VllmMixedNtkScaling::mixed_b, not_a_number, mixed_b + "nan");
}

TEST_CASE("NtkByPartsScaling refuses bad settings", "[rules]") {
  const NtkByPartsScaling rule{
      .rotary_dim = 8, .base = 10000, .factor = 2, .original_max_position = 2048};
  check_shared_fields(rule, 2);
  check_factor(rule);
  check_length(rule);
  const std::string ends = "NtkByPartsScaling: beta >= alpha > 0 must hold but they are ";
  check_rejected(rule, &NtkByPartsScaling::alpha, 0.0, ends + "32 and 0");
  check_rejected(rule, &NtkByPartsScaling::alpha, 33.0, ends + "32 and 33");
  check_rejected(rule, &NtkByPartsScaling::alpha, not_a_number, ends + "32 and nan");
  check_rejected(rule, &NtkByPartsScaling::beta, infinity, ends + "inf and 1");
  check_rejected(rule, &NtkByPartsScaling::beta, 0.5, ends + "0.5 and 1");
}

TEST_CASE("TwoRampNtkScaling refuses bad settings", "[rules]") {
  const TwoRampNtkScaling rule{
      .rotary_dim = 8, .base = 10000, .factor = 2, .original_max_position = 2048};
  check_shared_fields(rule, 4);
  check_factor(rule);
  check_length(rule);
}

TEST_CASE("Llama3Scaling refuses bad settings", "[rules]") {
  const Llama3Scaling rule{.rotary_dim = 8,
                           .base = 500000,
                           .factor = 8,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4,
                           .original_max_position = 8192};
  check_shared_fields(rule, 2);
  check_factor(rule);
  check_length(rule);
  const std::string ends =
      "Llama3Scaling: high_freq_factor >= low_freq_factor > 0 must hold but they are ";
  check_rejected(rule, &Llama3Scaling::low_freq_factor, 0.0, ends + "4 and 0");
  check_rejected(rule, &Llama3Scaling::low_freq_factor, 5.0, ends + "4 and 5");
  check_rejected(rule, &Llama3Scaling::low_freq_factor, not_a_number, ends + "4 and nan");
  check_rejected(rule, &Llama3Scaling::high_freq_factor, 0.0, ends + "0 and 1");
  check_rejected(rule, &Llama3Scaling::high_freq_factor, infinity, ends + "inf and 1");
}

TEST_CASE("DivisorScaling refuses bad settings", "[rules]") {
  const DivisorScaling rule{.rotary_dim = 4, .base = 10000, .divisors = {1, 8}};
  using List = std::vector<double>;
  check_rejected(rule, &DivisorScaling::rotary_dim, Index{3},
                 "DivisorScaling: rotary_dim must be even and at least 2 but is 3");
  check_rejected(rule, &DivisorScaling::base, 1.0,
                 "DivisorScaling: base must be given, finite and greater than 1, but is 1");
  check_rejected(rule, &DivisorScaling::divisors, List{},
                 "DivisorScaling: divisors must hold rotary_dim / 2 = 2 divisors but holds 0");
  check_rejected(rule, &DivisorScaling::divisors, List{1, 2, 3},
                 "DivisorScaling: divisors must hold rotary_dim / 2 = 2 divisors but holds 3");
  const std::string positive = "DivisorScaling: divisors must be positive and finite but holds ";
  check_rejected(rule, &DivisorScaling::divisors, List{1, 0}, positive + "0");
  check_rejected(rule, &DivisorScaling::divisors, List{-1, 1}, positive + "-1");
  check_rejected(rule, &DivisorScaling::divisors, List{1, infinity}, positive + "inf");
  check_rejected(rule, &DivisorScaling::divisors, List{1, not_a_number}, positive + "nan");
  check_rejected(rule, &DivisorScaling::attention_factor, 0.0,
                 "Frequencies: attention_factor must be positive and finite but is 0");
}

TEST_CASE("LongRopeScaling refuses bad settings", "[rules]") {
  const LongRopeScaling rule{.rotary_dim = 4,
                             .base = 10000,
                             .short_factor = {1, 1.5},
                             .long_factor = {1, 8},
                             .original_max_position = 4096,
                             .factor = 32};
  using List = std::vector<double>;
  using Optional = std::optional<double>;
  check_rejected(rule, &LongRopeScaling::rotary_dim, Index{0},
                 "LongRopeScaling: rotary_dim must be even and at least 2 but is 0");
  check_rejected(rule, &LongRopeScaling::base, 0.0,
                 "LongRopeScaling: base must be given, finite and greater than 1, but is 0");
  check_rejected(rule, &LongRopeScaling::short_factor, List{1},
                 "LongRopeScaling: short_factor must hold rotary_dim / 2 = 2 divisors but holds 1");
  check_rejected(rule, &LongRopeScaling::long_factor, List{1, 2, 3},
                 "LongRopeScaling: long_factor must hold rotary_dim / 2 = 2 divisors but holds 3");
  check_rejected(rule, &LongRopeScaling::short_factor, List{1, 0},
                 "LongRopeScaling: short_factor must be positive and finite but holds 0");
  check_rejected(rule, &LongRopeScaling::long_factor, List{not_a_number, 1},
                 "LongRopeScaling: long_factor must be positive and finite but holds nan");
  check_length(rule);
  check_rejected(
      rule, &LongRopeScaling::original_max_position, Index{1},
      "LongRopeScaling: original_max_position must be greater than 1 where factor is given");
  check_rejected(rule, &LongRopeScaling::factor, Optional(0.5),
                 "LongRopeScaling: factor must be given, finite and at least 1, but is 0.5");
  const std::string one =
      "LongRopeScaling: exactly one of factor, attention_factor, and short_mscale with long_mscale "
      "must be given, but there are ";
  check_rejected(rule, &LongRopeScaling::factor, Optional(), one + "0");
  check_rejected(rule, &LongRopeScaling::attention_factor, Optional(1.25), one + "2");
  check_rejected(
      rule, &LongRopeScaling::short_mscale, Optional(1.25),
      "LongRopeScaling: short_mscale and long_mscale must be given together, but long_mscale is "
      "missing");
  check_rejected(
      rule, &LongRopeScaling::long_mscale, Optional(1.25),
      "LongRopeScaling: short_mscale and long_mscale must be given together, but short_mscale "
      "is missing");
}

TEST_CASE("ProportionalScaling refuses bad settings", "[rules]") {
  const ProportionalScaling rule{.head_dim = 64, .base = 10000, .partial_rotary_factor = 0.25};
  check_rejected(rule, &ProportionalScaling::head_dim, Index{63},
                 "ProportionalScaling: head_dim must be even and at least 2 but is 63");
  check_rejected(rule, &ProportionalScaling::base, 1.0,
                 "ProportionalScaling: base must be given, finite and greater than 1, but is 1");
  check_factor(rule);
  const std::string share =
      "ProportionalScaling: partial_rotary_factor must be given and lie in (0, 1] but is ";
  check_rejected(rule, &ProportionalScaling::partial_rotary_factor, 0.0, share + "0");
  check_rejected(rule, &ProportionalScaling::partial_rotary_factor, 1.5, share + "1.5");
  check_rejected(rule, &ProportionalScaling::partial_rotary_factor, not_a_number, share + "nan");
  check_rejected(
      rule, &ProportionalScaling::partial_rotary_factor, 0.01,
      "ProportionalScaling: partial_rotary_factor must let a pair turn, but is 0.01 of head_dim "
      "64");
}

TEST_CASE("lengths must not be negative", "[rules]") {
  const auto check = [](const auto& rule, const std::string& name) {
    CHECK_NOTHROW(frequencies(rule, 0));
    CHECK_THROWS_MATCHES(frequencies(rule, -1), PositionError,
                         Catch::Matchers::Message("posenc::" + name +
                                                  ": the length must not be negative but is -1"));
  };
  check(
      DynamicNtkScaling{.rotary_dim = 8, .base = 10000, .factor = 1, .original_max_position = 2048},
      "DynamicNtkScaling");
  check(DynamicYarnScaling{.rotary_dim = 8, .base = 10000, .original_max_position = 2048},
        "DynamicYarnScaling");
  check(LongRopeScaling{.rotary_dim = 2,
                        .base = 10000,
                        .short_factor = {1},
                        .long_factor = {2},
                        .original_max_position = 2048,
                        .factor = 2},
        "LongRopeScaling");
}

TEST_CASE("rules without settings name what is missing", "[rules]") {
  CHECK_THROWS_AS(frequencies(Unscaled{}), ConfigError);
  CHECK_THROWS_AS(frequencies(LinearScaling{.rotary_dim = 8, .base = 10000}), ConfigError);
  CHECK_THROWS_AS(frequencies(YarnScaling{.rotary_dim = 8, .base = 10000, .factor = 2}),
                  ConfigError);
}

}  // namespace rotary_rule_errors_test
