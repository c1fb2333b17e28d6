// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/rule_description.hpp>
#include <posenc/frequency/yarn.hpp>

#include <algorithm>
#include <optional>
#include <type_traits>

POSENC_STABLE_BEGIN

/// YaRN with the factor length / trained length ("dynamic-yarn"). Up to the length that the model
/// was trained or finetuned for, the factor is constant.
struct DynamicYarnScaling {
  Index rotary_dim = 0;  ///< required; even
  double base = 0;       ///< required; "rope_theta"
  /// Required; the trained length L: "original_max_position_embeddings".
  Index original_max_position = 0;
  /// The length M > L that the model was finetuned for; up to it the factor is M / L.
  std::optional<Index> finetuned_max_position = std::nullopt;
  double beta_fast = 32;  ///< pairs with more rotations in L keep their frequency
  double beta_slow = 1;   ///< pairs with fewer are divided by the factor
  bool truncate = true;   ///< round the ramp's ends outward to integers
  /// The ramp if its ends cross, where projects differ.
  YarnCrossing crossing = YarnCrossing::Step;
};

static_assert(std::is_trivially_copyable_v<DynamicYarnScaling>);

POSENC_STABLE_END

POSENC_BEGIN

POSENC_DETAIL_DESCRIBE_RULE(DynamicYarnScaling, rotary_dim, base, original_max_position,
                            finetuned_max_position, beta_fast, beta_slow, truncate, crossing);

/// Returns the frequencies of YarnScaling with factor max(length, M or L) / L; the attention factor
/// follows from that factor. If the model was not finetuned, they are the bits of Unscaled up to
/// length L.
///   Throws: ConfigError; PositionError for a negative length
///   Source: the YaRN repository. Its finetuned form uses length / M beyond M, so that the factor
///           drops back to 1 there. Here the factor keeps growing
inline Frequencies frequencies(const DynamicYarnScaling& rule, Index length) {
  constexpr auto name = RuleDescription<DynamicYarnScaling>::name;
  detail::check_common_fields(rule);
  detail::check_betas(name, rule.beta_fast, rule.beta_slow);
  const Index finetuned = rule.finetuned_max_position.value_or(rule.original_max_position);
  if (finetuned < rule.original_max_position) {
    detail::fail<ConfigError>(name, "finetuned_max_position must not be less than ",
                              rule.original_max_position, " but is ", finetuned);
  }
  detail::check_length(name, length);
  const detail::QuadDouble factor =
      detail::QuadDouble(static_cast<double>((std::max)(length, finetuned))) /
      static_cast<double>(rule.original_max_position);

  return detail::exact_frequencies(detail::yarn_inv_freq(rule, factor),
                                   detail::yarn_magnitude(detail::rounded(factor)).hi);
}

POSENC_END
