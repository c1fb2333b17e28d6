// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <algorithm>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Dynamic NTK as Hugging Face defines it: once the sequence is longer than the trained length, the
/// base grows, and faster than the length does.
/// Factor 1 is dynamic NTK of the YaRN paper (arXiv 2309.00071, section 3.3): NtkScaling by length
/// / trained length.
struct DynamicNtkScaling {
  Index rotary_dim = 0;             ///< required; even, >= 4
  double base = 0;                  ///< required; "rope_theta"
  double factor = 0;                ///< required, >= 1; 1 in the YaRN paper
  Index original_max_position = 0;  ///< required; "max_position_embeddings" in Hugging Face
};

static_assert(std::is_trivially_copyable_v<DynamicNtkScaling>);

POSENC_STABLE_END

POSENC_BEGIN

POSENC_DETAIL_DESCRIBE_RULE(DynamicNtkScaling, rotary_dim, base, factor, original_max_position);

/// Returns the frequencies of NtkScaling with factor * max(length, L) / L - (factor - 1) in place
/// of the factor, L = original_max_position. Up to length L they are the bits of Unscaled.
/// The result depends on the arguments alone. Keys cached under another length keep that length's
/// rotation.
///   Throws: ConfigError; PositionError for a negative length
inline Frequencies frequencies(const DynamicNtkScaling& rule, Index length) {
  constexpr auto name = RuleDescription<DynamicNtkScaling>::name;
  detail::check_common_fields(rule, 4);
  detail::check_length(name, length);
  const auto original = static_cast<double>(rule.original_max_position);
  const double excess = (std::max)(static_cast<double>(length) - original, 0.0);
  // factor * l / L - (factor - 1), written so that excess 0 gives exactly 1.
  const detail::QuadDouble scale = detail::QuadDouble(rule.factor) * excess / original + 1.0;
  return detail::exact_frequencies(
      detail::rounded(detail::ntk_power_law(rule.base, scale, rule.rotary_dim)));
}

POSENC_END
