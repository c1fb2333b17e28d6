// SPDX-License-Identifier: MIT
// Tests YarnScaling: its ramp, its magnitudes, and what it rejects.
#include "frequency/rejections.hpp"
#include "reference/frequencies.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/throws.hpp"
#include <posenc/frequency/hf_float32.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace yarn_test {

using posenc::Frequencies;
using posenc::frequencies;
using posenc::Index;
using posenc::YarnScaling;
using namespace rejections;  // NOLINT: every check of a rejection

namespace {

YarnScaling yarn(Index rotary_dim, double base, Index original_max_position) {
  return {.rotary_dim = rotary_dim,
          .base = base,
          .factor = 16,
          .original_max_position = original_max_position};
}

/// Checks the extent of the ramp by its results: pairs up to `low` are unscaled and pairs from
/// `high` on are interpolated, bit for bit; pairs between are neither.
void check_ramp(const YarnScaling& rule, Index low, Index high) {
  const Frequencies ours = frequencies(rule);
  const Frequencies kept =
      frequencies(posenc::Unscaled{.rotary_dim = rule.rotary_dim, .base = rule.base});
  const Frequencies divided = frequencies(posenc::LinearScaling{
      .rotary_dim = rule.rotary_dim, .base = rule.base, .factor = rule.factor});
  for (Index pair = 0; pair < ours.pairs(); ++pair) {
    CAPTURE(pair);
    const auto i = static_cast<std::size_t>(pair);
    CHECK((posenc::detail::exact_inv_freq(ours)[i] == posenc::detail::exact_inv_freq(kept)[i]) ==
          (pair <= low));
    CHECK((posenc::detail::exact_inv_freq(ours)[i] == posenc::detail::exact_inv_freq(divided)[i]) ==
          (pair >= high));
    CHECK(posenc::detail::exact_inv_freq(ours)[i] <= posenc::detail::exact_inv_freq(kept)[i]);
    CHECK(posenc::detail::exact_inv_freq(ours)[i] >= posenc::detail::exact_inv_freq(divided)[i]);
  }
}

void check_against_reference(const YarnScaling& rule) {
  const auto ours = frequencies(rule).inv_freq();
  const auto expected = reference::yarn_frequencies(
      {.rotary_dim = rule.rotary_dim,
       .base = rule.base,
       .factor = rule.factor,
       .original_max_position = static_cast<double>(rule.original_max_position),
       .beta_fast = rule.beta_fast,
       .beta_slow = rule.beta_slow,
       .truncate = rule.truncate});
  REQUIRE(ours.size() == expected.inv_freq.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    CAPTURE(i);
    CHECK(support::ulp_distance(ours[i], static_cast<double>(expected.inv_freq[i])) <= 1);
  }
}

}  // namespace

TEST_CASE("YarnScaling: the truncated ramp begins and ends on whole pairs", "[yarn]") {
  check_ramp(yarn(128, 1e4, 4096), 20, 46);
  check_ramp(yarn(64, 1e4, 4096), 10, 23);
  check_ramp(yarn(128, 1e6, 32768), 23, 40);
  check_ramp(yarn(8, 1e4, 64), 0, 2);
}

TEST_CASE("YarnScaling: the ramp that is not truncated begins and ends between pairs", "[yarn]") {
  YarnScaling gpt_oss = yarn(64, 1.5e5, 4096);
  gpt_oss.truncate = false;
  check_ramp(gpt_oss, 8, 18);
  // rho_9 = (9 - 8.093) / (17.398 - 8.093)
  const double rho = (9 - 8.0928) / (17.3983 - 8.0928);
  const double kept = std::pow(1.5e5, -18.0 / 64);
  CHECK(frequencies(gpt_oss).inv_freq()[9] ==
        Approx(kept * (1 - rho) + kept / 16 * rho).epsilon(1e-5));
  check_against_reference(gpt_oss);
}

TEST_CASE("YarnScaling: the ramp is linear in the pair index", "[yarn]") {
  // Llama-2 with factor 16: rho = 18 / 26 at pair 38, so that w' = 0.351 w.
  const auto ours = frequencies(yarn(128, 1e4, 4096)).inv_freq();
  CHECK(ours[38] * std::pow(1e4, 76.0 / 128) == Approx(0.351).margin(0.0005));
}

TEST_CASE("YarnScaling: bounds that leave the pairs or cross are clamped", "[yarn]") {
  SECTION("both below the first pair: all but it are interpolated") {
    check_ramp(yarn(16, 1e4, 4), 0, 1);
    check_against_reference(yarn(16, 1e4, 4));
  }
  SECTION("both past the last pair: nothing is scaled") {
    check_ramp(yarn(16, 1.5, 1000000), 7, 8);
  }
  SECTION("they meet: a step") {
    YarnScaling step = yarn(128, 1e4, 4096);
    step.truncate = false;
    step.beta_fast = step.beta_slow = 8;
    const auto at = static_cast<double>(posenc::detail::pair_index_at_rotations(128, 1e4, 4096, 8));
    check_ramp(step, static_cast<Index>(std::floor(at)), static_cast<Index>(std::ceil(at)));
    check_against_reference(step);
  }
  SECTION("a step is 0.001 wide") {
    // With this many rotations the step begins at 39.9995, and pair 40 lies in its middle.
    YarnScaling step = yarn(128, 1e4, 4096);
    step.truncate = false;
    step.beta_fast = step.beta_slow =
        4096 / (2 * std::acos(-1)) * std::pow(1e4, -2 * 39.9995 / 128);
    const double kept = std::pow(1e4, -80.0 / 128);
    CHECK(frequencies(step).inv_freq()[40] == Approx(kept * (1 + 1.0 / 16) / 2).epsilon(1e-9));
  }
  SECTION("the upper end is clamped to rotary_dim - 1, not to the last pair") {
    YarnScaling wide = yarn(16, 1e4, 4096);
    wide.beta_slow = 1e-6;
    check_ramp(wide, 2, 15);
    check_against_reference(wide);
  }
}

TEST_CASE("YarnScaling: ends that cross may run backwards", "[yarn]") {
  const auto backwards = [](YarnScaling rule) {
    rule.crossing = posenc::YarnCrossing::Backwards;
    return frequencies(rule).inv_freq();
  };
  const auto unscaled = [](Index dim, double base) {
    return frequencies(posenc::Unscaled{.rotary_dim = dim, .base = base}).inv_freq();
  };
  SECTION("far too short a length: nothing is scaled, where a step scales all pairs but one") {
    CHECK(backwards(yarn(128, 1e4, 4)) == unscaled(128, 1e4));
    CHECK_FALSE(frequencies(yarn(128, 1e4, 4)).inv_freq() == unscaled(128, 1e4));
  }
  SECTION("far too long a one: all pairs are scaled, where a step scales none") {
    const YarnScaling far = yarn(16, 1.5, 1000000);
    auto expected = unscaled(16, 1.5);
    CHECK(frequencies(far).inv_freq() == expected);
    for (double& w : expected) w /= far.factor;
    CHECK(backwards(far) == expected);
  }
  SECTION("ends in order, or that meet, give the same bits either way") {
    CHECK(backwards(yarn(128, 1e4, 4096)) == frequencies(yarn(128, 1e4, 4096)).inv_freq());
    YarnScaling step = yarn(128, 1e4, 4096);
    step.truncate = false;
    step.beta_fast = step.beta_slow = 8;
    CHECK(backwards(step) == frequencies(step).inv_freq());
  }
  SECTION("in float32, too") {
    YarnScaling rule = yarn(128, 1e4, 4);
    rule.crossing = posenc::YarnCrossing::Backwards;
    CHECK(hf_float32_frequencies(rule).inv_freq() ==
          hf_float32_frequencies(posenc::Unscaled{.rotary_dim = 128, .base = 1e4}).inv_freq());
  }
}

TEST_CASE("YarnScaling: other betas move the ramp", "[yarn]") {
  for (const double fast : {64.0, 32.0, 4.0}) {
    for (const double slow : {2.0, 1.0, 0.25}) {
      YarnScaling rule = yarn(96, 1e4, 4096);
      rule.beta_fast = fast;
      rule.beta_slow = slow;
      check_against_reference(rule);
      rule.truncate = false;
      check_against_reference(rule);
    }
  }
}

TEST_CASE("YarnScaling: attention_factor is 0.1 ln(factor) + 1 unless given", "[yarn]") {
  YarnScaling rule = yarn(64, 1e4, 4096);
  CHECK(support::ulp_distance(frequencies(rule).attention_factor(), 0.1 * std::log(16.0) + 1) <= 1);
  rule.factor = 1;
  CHECK(frequencies(rule).attention_factor() == 1);
  rule.attention_factor = 0.75;  // it replaces the default and is not multiplied with it
  CHECK(frequencies(rule).attention_factor() == 0.75);
  rule.factor = 16;
  CHECK(frequencies(rule).attention_factor() == 0.75);
  rule.attention_factor = 0;
  CHECK_THROWS_AS(frequencies(rule), posenc::ConfigError);
}

TEST_CASE("yarn_mscale: is 0.1 k ln(factor) + 1, and 1 up to factor 1", "[yarn]") {
  CHECK(posenc::yarn_mscale(40) == Approx(1.3688879454113936).epsilon(1e-15));
  CHECK(posenc::yarn_mscale(40, 0.7) == Approx(0.07 * std::log(40) + 1).epsilon(1e-15));
  CHECK(posenc::yarn_mscale(40, 0) == 1);
  CHECK(posenc::yarn_mscale(1) == 1);
  CHECK(posenc::yarn_mscale(0.5) == 1);
  CHECK(frequencies(yarn(64, 1e4, 4096)).attention_factor() == posenc::yarn_mscale(16));
}

TEST_CASE("YarnScaling: DeepSeek's magnitudes go to the softmax scale", "[yarn]") {
  YarnScaling rule = yarn(64, 1e4, 4096);
  rule.factor = 40;
  const auto plain = frequencies(rule);
  const auto deepseek = [&rule](double mscale, double mscale_all_dim) {
    rule.mscale = mscale;
    rule.mscale_all_dim = mscale_all_dim;
    return frequencies(rule);
  };
  CHECK(plain.softmax_scale_multiplier() == 1);
  // DeepSeek-V2 and V3.
  CHECK(deepseek(0.707, 0.707).attention_factor() == 1);
  CHECK(deepseek(0.707, 0.707).softmax_scale_multiplier() == Approx(1.5896).margin(5e-5));
  CHECK(deepseek(1, 1).attention_factor() == 1);
  CHECK(deepseek(1, 1).softmax_scale_multiplier() == Approx(1.8739).margin(5e-5));
  CHECK(deepseek(1, 0.707).attention_factor() ==
        Approx(reference::deepseek_attention_factor(40, 1, 0.707)).epsilon(1e-15));
  CHECK(deepseek(1, 0.707).softmax_scale_multiplier() ==
        Approx(reference::deepseek_softmax_multiplier(40, 0.707)).epsilon(1e-15));
  // vLLM's default for mscale_all_dim.
  CHECK(deepseek(1, 0).attention_factor() == plain.attention_factor());
  CHECK(deepseek(1, 0).softmax_scale_multiplier() == 1);
  CHECK(deepseek(1, 1).inv_freq() == plain.inv_freq());

  rule.mscale.reset();
  rule.mscale_all_dim = 1;
  rule.attention_factor = 0.75;
  CHECK(frequencies(rule).attention_factor() == 0.75);
  CHECK(frequencies(rule).softmax_scale_multiplier() == Approx(1.8739).margin(5e-5));
}

TEST_CASE("yarn_mscale: rejects what is not finite", "[rules][yarn]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_AS(posenc::yarn_mscale(nan), posenc::ConfigError);
  CHECK_THROWS_AS(posenc::yarn_mscale(2, nan), posenc::ConfigError);
}

TEST_CASE("YarnScaling: rejects bad settings", "[rules]") {
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

TEST_CASE("YarnScaling: rejects magnitudes that contradict each other", "[rules]") {
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

TEST_CASE("YarnScaling: the magnitude needs finite numbers", "[yarn][errors]") {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::string start = "posenc::yarn_mscale: factor and k must be finite but are ";
  CHECK(support::message_of<posenc::ConfigError>([&] { posenc::yarn_mscale(infinity); }) ==
        start + "inf and 1");
  CHECK(support::message_of<posenc::ConfigError>([&] { posenc::yarn_mscale(2, -infinity); }) ==
        start + "2 and -inf");
  const std::string magnitude =
      "posenc::yarn_mscale: k ln(factor) / 10 + 1 must be finite, but factor and k are ";
  CHECK(support::message_of<posenc::ConfigError>([] { posenc::yarn_mscale(1e308, 1e308); }) ==
        magnitude + "1e+308 and 1e+308");
  CHECK(posenc::yarn_mscale(1e308) == Approx(1 + 30.8 * std::log(10)).epsilon(1e-15));
}

}  // namespace yarn_test
