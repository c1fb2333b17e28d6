// SPDX-License-Identifier: MIT
// frequency/: every rule, exact and in float32.
#include <posenc/frequency/angle_policy.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/hf_float32.hpp>
#include <posenc/frequency/index_ramp.hpp>
#include <posenc/frequency/rotary_rule.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <type_traits>
#include <variant>

/// Evaluates a rule in all ways that it has.
template <class Rule>
double use_rule(const Rule& rule) {
  double sum = 0;
  const auto use = [&sum](const posenc::Frequencies& found) {
    sum += found.attention_factor() + found.inv_freq().back();
  };
  if constexpr (requires { frequencies(rule); }) use(frequencies(rule));
  if constexpr (requires { frequencies(rule, 5000); }) use(frequencies(rule, 5000));
  if constexpr (requires { hf_float32_frequencies(rule); }) use(hf_float32_frequencies(rule));
  if constexpr (requires { hf_float32_frequencies(rule, 5000); }) {
    use(hf_float32_frequencies(rule, 5000));
  }
  posenc::for_each_field(rule, [&sum](const char*, const auto& value) {
    if constexpr (std::is_arithmetic_v<std::remove_cvref_t<decltype(value)>>) {
      sum += static_cast<double>(value);
    }
  });
  return sum;
}

double use_frequencies(const posenc::RotaryRule& any) {
  return std::visit(
      []<class Rule>(const Rule& rule) {
        if constexpr (std::is_same_v<Rule, std::monostate>) {
          return 0.0;
        } else {
          return use_rule(rule);
        }
      },
      any);
}
