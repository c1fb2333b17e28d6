// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <type_traits>

POSENC_STABLE_BEGIN

/// NTK-aware scaling, static: the base is enlarged so that the first frequency is unchanged and the
/// last one is divided by factor.
struct NtkScaling {
  Index rotary_dim = 0;  ///< required; even, >= 4
  double base = 0;       ///< required; "rope_theta"
  double factor = 0;     ///< required, >= 1; lucidrains' theta_rescale_factor
};

/// NtkScaling with factor = alpha, bit-identical, for files that give "alpha". Hunyuan's files say
/// {"type": "dynamic", "alpha": 1000}, although nothing depends on the length. vLLM's "dynamic" is
/// this rule too, with alpha = s^2 - s + 1 for factor s.
struct AlphaNtkScaling {
  Index rotary_dim = 0;  ///< required; even, >= 4
  double base = 0;       ///< required
  double alpha = 0;      ///< required, >= 1
};

static_assert(std::is_trivially_copyable_v<NtkScaling>);
static_assert(std::is_trivially_copyable_v<AlphaNtkScaling>);

POSENC_STABLE_END

POSENC_BEGIN

POSENC_DETAIL_DESCRIBE_RULE(NtkScaling, rotary_dim, base, factor);

POSENC_DETAIL_DESCRIBE_RULE(AlphaNtkScaling, rotary_dim, base, alpha);

namespace detail {

/// Returns base^(-2i/dim) * scale^(-2i/(dim-2)): the power law of the enlarged base base *
/// scale^(dim/(dim-2)).
inline std::vector<QuadDouble> ntk_power_law(const QuadDouble& base, const QuadDouble& scale,
                                             Index dim) {
  return geometric_sequence(log_of_ratio(base, dim) + log_of_ratio(scale, dim - 2), dim / 2);
}

}  // namespace detail

/// Returns w_i' = w_i * factor^(-2i / (rotary_dim - 2)). Factor 1 gives the bits of Unscaled.
///   Throws: ConfigError
inline Frequencies frequencies(const NtkScaling& rule) {
  detail::check_common_fields(rule, 4);
  return detail::exact_frequencies(
      detail::rounded(detail::ntk_power_law(rule.base, rule.factor, rule.rotary_dim)));
}

/// Returns the frequencies of NtkScaling with factor = alpha, bit-identical.
///   Throws: ConfigError
inline Frequencies frequencies(const AlphaNtkScaling& rule) {
  constexpr auto name = RuleDescription<AlphaNtkScaling>::name;
  detail::check_common_fields(rule, 4);
  detail::check_scaling_factor(name, rule.alpha, "alpha");
  return detail::exact_frequencies(
      detail::rounded(detail::ntk_power_law(rule.base, rule.alpha, rule.rotary_dim)));
}

POSENC_END
