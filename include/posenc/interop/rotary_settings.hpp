// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/frequency/angle_policy.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/hf_float32.hpp>
#include <posenc/frequency/rotary_rule.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/pair_axes.hpp>
#include <posenc/rotary/pairing.hpp>

#include <cstddef>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

POSENC_BEGIN

/// Rotary encoding of one type of layer, as read from a model's file.
struct RotarySettings {
  RotaryRule rule = {};                               ///< required
  std::optional<PairingKind> pairing = std::nullopt;  ///< required
  /// Required; channels of a head of queries or keys, including non-rotary ones.
  Index head_dim = 0;
  Index rotary_offset = 0;  ///< first rotary channel of a head
  PairAxes axes = {};       ///< position axis of each pair
  /// The rule's pair index restarts on every axis, as if each were a rope of its own (Unscaled
  /// alone).
  bool index_per_axis = false;
  bool chatglm_halves = false;  ///< the rule applies to each half of the head (ChatGlmRope)
};

namespace detail {

constexpr Index max_head_dim = 65536;

template <class Rule>
Index rotary_dim_of(const Rule& rule) {
  if constexpr (requires { rule.rotary_dim; }) {
    return rule.rotary_dim;
  } else {
    return rule.head_dim;
  }
}

/// Calls f with the rule of the settings, one of the `first`-th and later types. It compiles in
/// less time than std::visit() does.
template <std::size_t first = 1, class F>
auto with_rule(const char* function, const RotarySettings& settings, const F& f) {
  if constexpr (first == std::variant_size_v<RotaryRule>) {
    fail<ConfigError>(function, "rule must be set");
    return f(Unscaled{});  // unreachable; determines the return type
  } else {
    if (const auto* rule = std::get_if<first>(&settings.rule)) return f(*rule);
    return with_rule<first + 1>(function, settings, f);
  }
}

}  // namespace detail

/// Returns the number of rotary channels of a head.
///   Throws: ConfigError without a rule
inline Index rotary_dim(const RotarySettings& settings) {
  return detail::with_rule("RotarySettings", settings,
                           [](const auto& rule) { return detail::rotary_dim_of(rule); });
}

/// True if the frequencies depend on the length of the sequence (dynamic NTK, dynamic YaRN,
/// LongRoPE).
///   Throws: ConfigError without a rule
inline bool depends_on_length(const RotarySettings& settings) {
  return detail::with_rule("RotarySettings", settings,
                           []<class Rule>(const Rule&) { return !FrequencyRule<Rule>; });
}

/// Checks fields that rules do not check.
///   Throws: ConfigError that names the field
inline void validate(const RotarySettings& settings) {
  constexpr auto function = "RotarySettings";
  const Index head_dim = settings.head_dim, offset = settings.rotary_offset;
  if (!settings.pairing) detail::fail<ConfigError>(function, "pairing must be set");
  if (head_dim < 1 || head_dim > detail::max_head_dim) {
    detail::fail<ConfigError>(function, "head_dim must be set and lie between 1 and ",
                              detail::max_head_dim, ", but is ", head_dim);
  }
  const Index dim = rotary_dim(settings);
  if (settings.index_per_axis &&
      (settings.axes.plain() || !std::holds_alternative<Unscaled>(settings.rule))) {
    detail::fail<ConfigError>(function, "index_per_axis requires axes and the rule Unscaled");
  }
  if (settings.index_per_axis) detail::check_rotary_dim(function, dim);
  if (settings.chatglm_halves) {
    if (*settings.pairing != PairingKind::HalfRotate || !settings.axes.plain() || offset != 0 ||
        dim != head_dim / 2) {
      detail::fail<ConfigError>(function,
                                "chatglm_halves requires half pairing, no axes, no rotary_offset, "
                                "and a rule for head_dim / 2 channels, not ",
                                dim, " of ", head_dim);
    }
    return;
  }
  if (dim < 1 || dim > head_dim || offset < 0 || offset > head_dim - dim) {
    detail::fail<ConfigError>(function, "rotary_offset ", offset, " and rotary_dim ", dim,
                              " do not fit into head_dim ", head_dim);
  }
  detail::check_pair_axes(function, settings.axes, dim / 2);
}

namespace detail {

/// Returns frequencies whose pair index restarts on every axis. `make` returns those of one axis.
template <class Make>
Frequencies frequencies_per_axis(const RotarySettings& settings, const Make& make) {
  const double base = std::get<Unscaled>(settings.rule).base;
  const PairAxes& axes = settings.axes;
  std::vector<DoubleDouble> inv_freq(static_cast<std::size_t>(axes.pairs()));
  std::vector<bool> is_set(inv_freq.size());
  std::vector<std::size_t> pairs;  // of one axis; some axes may have none
  for (std::size_t first = 0; first < is_set.size(); ++first) {
    if (is_set[first]) continue;
    pairs.clear();
    for (std::size_t pair = first; pair < is_set.size(); ++pair) {
      if (axes.axis(static_cast<Index>(pair)) == axes.axis(static_cast<Index>(first))) {
        pairs.push_back(pair);
      }
    }
    const Frequencies frequencies =
        make(Unscaled{.rotary_dim = 2 * static_cast<Index>(pairs.size()), .base = base});
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      inv_freq[pairs[i]] = exact_inv_freq(frequencies)[i];
      is_set[pairs[i]] = true;
    }
  }
  return detail::exact_frequencies(std::move(inv_freq));
}

}  // namespace detail

/// Returns the frequencies for a sequence of `length` tokens. Rules that do not depend on the
/// length ignore it.
///   Throws: ConfigError; PositionError for a negative length
inline Frequencies frequencies(const RotarySettings& settings, Index length) {
  validate(settings);
  if (settings.index_per_axis) {
    return detail::frequencies_per_axis(settings,
                                        [](const Unscaled& rule) { return frequencies(rule); });
  }
  return detail::with_rule("frequencies", settings, [length]<class Rule>(const Rule& rule) {
    if constexpr (FrequencyRule<Rule>) {
      return frequencies(rule);
    } else {
      return frequencies(rule, length);
    }
  });
}

namespace detail {

inline void require_one_length(const RotarySettings& settings) {
  if (!depends_on_length(settings)) return;
  fail<ConfigError>("frequencies",
                    "this rule's frequencies depend on the length of the sequence, which must be "
                    "set");
}

}  // namespace detail

/// Returns the frequencies of a rule that does not depend on the length.
///   Throws: ConfigError
inline Frequencies frequencies(const RotarySettings& settings) {
  detail::require_one_length(settings);
  return frequencies(settings, 0);
}

/// Returns the frequencies that Hugging Face computes in float32 for a sequence of `length` tokens;
/// see AnglePolicy.
///   Throws: ConfigError, also for a rule that Hugging Face does not have; PositionError for a
///           negative length
inline Frequencies hf_float32_frequencies(const RotarySettings& settings, Index length) {
  validate(settings);
  if (settings.index_per_axis) {
    return detail::frequencies_per_axis(
        settings, [](const Unscaled& rule) { return hf_float32_frequencies(rule); });
  }
  return detail::with_rule("hf_float32_frequencies", settings, [length](const auto& rule) {
    if constexpr (requires { hf_float32_frequencies(rule); }) {
      return hf_float32_frequencies(rule);
    } else if constexpr (requires { hf_float32_frequencies(rule, length); }) {
      return hf_float32_frequencies(rule, length);
    } else {
      detail::fail<ConfigError>("hf_float32_frequencies",
                                "Hugging Face has no float32 pipeline for this rule");
      return Frequencies::from_inv_freq({});  // unreachable; determines the return type
    }
  });
}

/// Returns the rotation for a sequence of `length` tokens, or of any length if the rule does not
/// depend on it. With AnglePolicy::HfFloat32, frequencies and angles are those of Hugging Face's
/// float32.
///   Throws: ConfigError; PositionError for a negative length
inline AnyRope rope(const RotarySettings& settings, Index length,
                    AnglePolicy policy = AnglePolicy::Exact) {
  Frequencies pairs = policy == AnglePolicy::HfFloat32 ? hf_float32_frequencies(settings, length)
                                                       : frequencies(settings, length);
  if (settings.chatglm_halves) return ChatGlmRope(pairs, policy);
  return AnyRope(*settings.pairing, std::move(pairs), settings.rotary_offset, settings.axes,
                 policy);
}
/// Overload of rope() for a rule that does not depend on the length of the sequence.
///   Throws: ConfigError, also if the rule depends on the length
inline AnyRope rope(const RotarySettings& settings) {
  detail::require_one_length(settings);
  return rope(settings, 0);
}

POSENC_END
