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

/// The names of NtkScaling and of its fields.
template <>
struct RuleDescription<NtkScaling> {
  /// Name of the struct, for messages and tools.
  static constexpr auto name = "NtkScaling";
  /// Calls f(name, pointer to member) for every field, in order of declaration.
  template <class F>
  static constexpr void fields(const F& f) {
    using R = NtkScaling;
    f("rotary_dim", &R::rotary_dim);
    f("base", &R::base);
    f("factor", &R::factor);
  }
};

/// The names of AlphaNtkScaling and of its fields.
template <>
struct RuleDescription<AlphaNtkScaling> {
  /// Name of the struct, for messages and tools.
  static constexpr auto name = "AlphaNtkScaling";
  /// Calls f(name, pointer to member) for every field, in order of declaration.
  template <class F>
  static constexpr void fields(const F& f) {
    using R = AlphaNtkScaling;
    f("rotary_dim", &R::rotary_dim);
    f("base", &R::base);
    f("alpha", &R::alpha);
  }
};

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
  constexpr auto name = RuleDescription<NtkScaling>::name;
  detail::check_rotary_dim(name, rule.rotary_dim, 4);
  detail::check_base(name, rule.base);
  detail::check_scaling_factor(name, rule.factor);
  return detail::exact_frequencies(
      detail::rounded(detail::ntk_power_law(rule.base, rule.factor, rule.rotary_dim)));
}

/// Returns the frequencies of NtkScaling with factor = alpha, bit-identical.
///   Throws: ConfigError
inline Frequencies frequencies(const AlphaNtkScaling& rule) {
  constexpr auto name = RuleDescription<AlphaNtkScaling>::name;
  detail::check_rotary_dim(name, rule.rotary_dim, 4);
  detail::check_base(name, rule.base);
  detail::check_scaling_factor(name, rule.alpha, "alpha");
  return detail::exact_frequencies(
      detail::rounded(detail::ntk_power_law(rule.base, rule.alpha, rule.rotary_dim)));
}

POSENC_END
