// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <type_traits>

POSENC_STABLE_BEGIN

/// The frequencies of RoFormer (arXiv 2104.09864, section 3.4.2); Hugging Face calls them
/// "default".
struct Unscaled {
  Index rotary_dim = 0;  ///< required; even
  double base = 0;       ///< required; "rope_theta", "freq_base": 10000, 500000, ...
};

static_assert(std::is_trivially_copyable_v<Unscaled>);

POSENC_STABLE_END

POSENC_BEGIN

POSENC_DETAIL_DESCRIBE_RULE(Unscaled, rotary_dim, base);

/// Returns w_i = base^(-2i / rotary_dim).
///   Throws: ConfigError
inline Frequencies frequencies(const Unscaled& rule) {
  detail::check_common_fields(rule);
  return detail::exact_frequencies(
      detail::power_law(rule.base, rule.rotary_dim, rule.rotary_dim / 2));
}

POSENC_END
