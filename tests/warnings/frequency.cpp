// SPDX-License-Identifier: MIT
// frequency/: every rule, exact and in float32.
#include <posenc/frequency/angle_policy.hpp>
#include <posenc/frequency/divisors.hpp>
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/dynamic_yarn.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/hf_float32.hpp>
#include <posenc/frequency/index_ramp.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/llama3.hpp>
#include <posenc/frequency/longrope.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/ntk_by_parts.hpp>
#include <posenc/frequency/proportional.hpp>
#include <posenc/frequency/rotary_rule.hpp>
#include <posenc/frequency/rule_description.hpp>
#include <posenc/frequency/two_ramp_ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/vllm_ntk.hpp>
#include <posenc/frequency/yarn.hpp>

#include <vector>

double use_frequencies() {
  const std::vector<double> divisors(16, 2);
  const posenc::Unscaled unscaled{.rotary_dim = 32, .base = 10000};
  const posenc::LinearScaling linear{.rotary_dim = 32, .base = 10000, .factor = 4};
  const posenc::DynamicNtkScaling dynamic{
      .rotary_dim = 32, .base = 10000, .factor = 2, .original_max_position = 2048};
  const posenc::YarnScaling yarn{
      .rotary_dim = 32, .base = 10000, .factor = 4, .original_max_position = 4096};
  const posenc::LongRopeScaling long_rope{.rotary_dim = 32,
                                          .base = 10000,
                                          .short_factor = divisors,
                                          .long_factor = divisors,
                                          .original_max_position = 4096};
  const posenc::Llama3Scaling llama{.rotary_dim = 32,
                                    .base = 500000,
                                    .factor = 8,
                                    .low_freq_factor = 1,
                                    .high_freq_factor = 4,
                                    .original_max_position = 8192};
  const posenc::ProportionalScaling proportional{
      .head_dim = 32, .base = 10000, .partial_rotary_factor = 0.5};
  const posenc::RotaryRule rule = yarn;
  const posenc::Frequencies all[] = {
      frequencies(unscaled),
      frequencies(linear),
      frequencies(dynamic, 5000),
      frequencies(yarn),
      frequencies(long_rope, 5000),
      frequencies(llama),
      frequencies(proportional),
      frequencies(posenc::DivisorScaling{.rotary_dim = 32, .base = 10000, .divisors = divisors}),
      frequencies(
          posenc::DynamicYarnScaling{
              .rotary_dim = 32, .base = 10000, .original_max_position = 2048},
          5000),
      frequencies(posenc::NtkScaling{.rotary_dim = 32, .base = 10000, .factor = 4}),
      frequencies(posenc::AlphaNtkScaling{.rotary_dim = 32, .base = 10000, .alpha = 4}),
      frequencies(posenc::NtkByPartsScaling{
          .rotary_dim = 32, .base = 10000, .factor = 4, .original_max_position = 2048}),
      frequencies(posenc::TwoRampNtkScaling{
          .rotary_dim = 32, .base = 10000, .factor = 4, .original_max_position = 2048}),
      frequencies(posenc::VllmNtkScaling{.rotary_dim = 32, .base = 10000, .factor = 4}),
      frequencies(
          posenc::VllmMixedNtkScaling{.rotary_dim = 32, .base = 10000, .factor = 4, .mixed_b = 1}),
      hf_float32_frequencies(unscaled),
      hf_float32_frequencies(linear),
      hf_float32_frequencies(dynamic, 5000),
      hf_float32_frequencies(yarn),
      hf_float32_frequencies(long_rope, 5000),
      hf_float32_frequencies(llama),
      hf_float32_frequencies(proportional)};
  double sum = static_cast<double>(rule.index());
  for (const posenc::Frequencies& each : all) {
    sum += each.attention_factor() + each.inv_freq().back();
  }
  posenc::for_each_field(
      linear, [&](const char*, const auto& value) { sum += static_cast<double>(value); });
  return sum;
}
