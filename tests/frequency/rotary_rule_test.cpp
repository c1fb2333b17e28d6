// SPDX-License-Identifier: MIT
// Every scaling rule against the plain reference, and the identities that hold bit for bit.
#include "frequency/presets.hpp"
#include "reference/frequencies.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include <posenc/frequency/divisors.hpp>
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/dynamic_yarn.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/llama3.hpp>
#include <posenc/frequency/longrope.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/ntk_by_parts.hpp>
#include <posenc/frequency/proportional.hpp>
#include <posenc/frequency/two_ramp_ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/vllm_ntk.hpp>
#include <posenc/frequency/yarn.hpp>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace rotary_rule_test {

using namespace posenc;  // NOLINT: every rule there is

namespace {

/// Checks within 1 ulp, because the reference rounds its long double result to double once more.
void check_against(const Frequencies& ours, const reference::Frequencies& expected) {
  const auto inv_freq = ours.inv_freq();
  REQUIRE(inv_freq.size() == expected.inv_freq.size());
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    largest = std::max(
        largest, support::ulp_distance(inv_freq[i], static_cast<double>(expected.inv_freq[i])));
  }
  CHECK(largest <= 1);
  CHECK(support::ulp_distance(ours.attention_factor(), expected.attention_factor) <= 1);
  CHECK(ours.softmax_scale_multiplier() == 1);
}

}  // namespace

TEST_CASE("RotaryRule: rules agree with the reference", "[rules]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    check_against(frequencies(Unscaled{.rotary_dim = dim, .base = base}),
                  reference::default_frequencies(dim, base));
    for (const double factor : {1.0, 1.5, 4.0, 32.0}) {
      CAPTURE(factor);
      check_against(frequencies(LinearScaling{.rotary_dim = dim, .base = base, .factor = factor}),
                    reference::linear_frequencies(dim, base, factor));
      check_against(frequencies(NtkScaling{.rotary_dim = dim, .base = base, .factor = factor}),
                    reference::ntk_frequencies(dim, base, static_cast<long double>(factor)));
      for (const Index length : {0, 2048, 2049, 5000, 1000000}) {
        CAPTURE(length);
        check_against(frequencies(DynamicNtkScaling{.rotary_dim = dim,
                                                    .base = base,
                                                    .factor = factor,
                                                    .original_max_position = 2048},
                                  length),
                      reference::dynamic_ntk_frequencies(dim, base, factor, 2048, length));
      }
      for (const bool truncate : {true, false}) {
        CAPTURE(truncate);
        check_against(frequencies(YarnScaling{.rotary_dim = dim,
                                              .base = base,
                                              .factor = factor,
                                              .original_max_position = 4096,
                                              .truncate = truncate}),
                      reference::yarn_frequencies({.rotary_dim = dim,
                                                   .base = base,
                                                   .factor = factor,
                                                   .original_max_position = 4096,
                                                   .truncate = truncate}));
      }
    }
  }
}

TEST_CASE("RotaryRule: the other NTK rules agree with the reference", "[rules]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    for (const double factor : {1.0, 1.5, 4.0, 1000.0}) {
      CAPTURE(factor);
      check_against(frequencies(AlphaNtkScaling{.rotary_dim = dim, .base = base, .alpha = factor}),
                    reference::ntk_frequencies(dim, base, static_cast<long double>(factor)));
      check_against(frequencies(VllmNtkScaling{.rotary_dim = dim, .base = base, .factor = factor}),
                    reference::vllm_ntk_frequencies(dim, base, factor));
      check_against(frequencies(VllmMixedNtkScaling{
                        .rotary_dim = dim, .base = base, .factor = factor, .mixed_b = 0.625}),
                    reference::vllm_ntk_frequencies(dim, base, factor, 0.625));
    }
    for (const Index length : {0, 2048, 2049, 5000, 1000000}) {
      CAPTURE(length);
      check_against(
          frequencies(
              DynamicNtkScaling{
                  .rotary_dim = dim, .base = base, .factor = 1, .original_max_position = 2048},
              length),
          reference::dynamic_ntk_frequencies(dim, base, 1, 2048, length));
    }
  }
}

TEST_CASE("RotaryRule: rules with ramps agree with the reference", "[rules]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    for (const double factor : {1.0, 1.5, 8.0, 32.0}) {
      CAPTURE(factor);
      check_against(frequencies(Llama3Scaling{.rotary_dim = dim,
                                              .base = base,
                                              .factor = factor,
                                              .low_freq_factor = 1,
                                              .high_freq_factor = 4,
                                              .original_max_position = 8192}),
                    reference::llama3_frequencies(dim, base, factor, 1, 4, 8192));
      check_against(
          frequencies(NtkByPartsScaling{
              .rotary_dim = dim, .base = base, .factor = factor, .original_max_position = 4096}),
          reference::ntk_by_parts_frequencies(dim, base, factor, 4096, 1, 32));
      check_against(
          frequencies(TwoRampNtkScaling{
              .rotary_dim = dim, .base = base, .factor = factor, .original_max_position = 2048}),
          reference::two_ramp_frequencies(dim, base, factor, 2048));
    }
    for (const Index length : {0, 4096, 4097, 30000}) {
      CAPTURE(length);
      check_against(frequencies(DynamicYarnScaling{.rotary_dim = dim,
                                                   .base = base,
                                                   .original_max_position = 4096,
                                                   .finetuned_max_position = 8000},
                                length),
                    reference::dynamic_yarn_frequencies(
                        {.rotary_dim = dim, .base = base, .original_max_position = 4096}, 8000,
                        static_cast<double>(length)));
    }
  }
}

TEST_CASE("RotaryRule: rules that divide or leave out pairs agree with the reference", "[rules]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    std::vector<double> divisors;
    for (Index i = 0; i < dim / 2; ++i) divisors.push_back(0.75 + 0.5 * static_cast<double>(i));
    check_against(
        frequencies(DivisorScaling{
            .rotary_dim = dim, .base = base, .divisors = divisors, .attention_factor = 1.25}),
        reference::divided_frequencies(dim, base, divisors, 1.25));
    for (const double share : {0.25, 0.4, 1.0}) {
      check_against(
          frequencies(ProportionalScaling{
              .head_dim = dim, .base = base, .partial_rotary_factor = share, .factor = 3}),
          reference::proportional_frequencies(dim, base, share, 3));
    }
  }
}

TEST_CASE("RotaryRule: factor 1 is Unscaled bit for bit under every rule", "[rules]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    constexpr Index trained = 4096;
    const Frequencies unscaled = frequencies(Unscaled{.rotary_dim = dim, .base = base});
    const auto check = [&unscaled](const auto& rule, auto... length) {
      CHECK(frequencies(rule, length...) == unscaled);
    };
    check(LinearScaling{.rotary_dim = dim, .base = base, .factor = 1});
    check(NtkScaling{.rotary_dim = dim, .base = base, .factor = 1});
    check(AlphaNtkScaling{.rotary_dim = dim, .base = base, .alpha = 1});
    check(VllmNtkScaling{.rotary_dim = dim, .base = base, .factor = 1});
    check(VllmMixedNtkScaling{.rotary_dim = dim, .base = base, .factor = 1, .mixed_b = 0.625});
    check(NtkByPartsScaling{
        .rotary_dim = dim, .base = base, .factor = 1, .original_max_position = trained});
    check(TwoRampNtkScaling{
        .rotary_dim = dim, .base = base, .factor = 1, .original_max_position = trained});
    Llama3Scaling llama3{.rotary_dim = dim,
                         .base = base,
                         .factor = 1,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4,
                         .original_max_position = trained};
    check(llama3);
    llama3.high_freq_factor = 1;
    check(llama3);
    YarnScaling yarn{
        .rotary_dim = dim, .base = base, .factor = 1, .original_max_position = trained};
    check(yarn);
    yarn.truncate = false;
    check(yarn);
    yarn.mscale = 0.707;
    yarn.mscale_all_dim = 1;
    check(yarn);
    check(ProportionalScaling{
        .head_dim = dim, .base = base, .partial_rotary_factor = 1, .factor = 1});
    const std::vector<double> ones(static_cast<std::size_t>(dim / 2), 1);
    check(DivisorScaling{.rotary_dim = dim, .base = base, .divisors = ones});
    const LongRopeScaling longrope{.rotary_dim = dim,
                                   .base = base,
                                   .short_factor = ones,
                                   .long_factor = ones,
                                   .original_max_position = trained,
                                   .factor = 1};
    check(longrope, trained);
    check(longrope, trained + 1);
    // These rules depend on the length alone; the length is within the trained one.
    check(DynamicYarnScaling{.rotary_dim = dim, .base = base, .original_max_position = trained},
          trained);
    // This one needs factor 1 and a length within the trained one.
    check(
        DynamicNtkScaling{
            .rotary_dim = dim, .base = base, .factor = 1, .original_max_position = trained},
        trained);
  }
}

TEST_CASE("RotaryRule: the smallest rotary dimensions work", "[rules]") {
  CHECK(frequencies(Unscaled{.rotary_dim = 2, .base = 10000}).inv_freq() ==
        std::vector<double>{1.0});
  CHECK(frequencies(LinearScaling{.rotary_dim = 2, .base = 10000, .factor = 4}).inv_freq() ==
        std::vector<double>{0.25});
  CHECK(frequencies(NtkScaling{.rotary_dim = 4, .base = 10000, .factor = 4}).inv_freq()[0] == 1);
  CHECK(frequencies(
            YarnScaling{.rotary_dim = 2, .base = 10000, .factor = 4, .original_max_position = 64})
            .pairs() == 1);
}

}  // namespace rotary_rule_test
