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
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

POSENC_BEGIN

/// The rotary encoding of one kind of layer, as a model's file tells it.
struct RotarySettings {
  RotaryRule rule = {};                               ///< required
  std::optional<PairingKind> pairing = std::nullopt;  ///< required
  Index head_dim = 0;           ///< required; channels of a query's or key's head, rotary or not
  Index rotary_offset = 0;      ///< first rotary channel of a head
  PairAxes axes = {};           ///< which axis of the positions turns each pair
  bool index_per_axis = false;  ///< the rule's index of pairs begins anew on every axis, as if each
                                ///< were a rope of its own (Unscaled alone)
  bool chatglm_halves = false;  ///< the rule is that of each half of the head (ChatGlmRope)
};

namespace detail {

constexpr Index largest_head_dim = 65536;

template <class Rule>
Index rotary_dim_of(const Rule& rule) {
  if constexpr (requires { rule.rotary_dim; }) {
    return rule.rotary_dim;
  } else {
    return rule.head_dim;
  }
}

/// Calls f with the rule that the settings hold.
template <class F>
auto with_rule(const char* function, const RotarySettings& settings, const F& f) {
  return std::visit(
      [&](const auto& rule) {
        if constexpr (std::is_same_v<decltype(rule), const std::monostate&>) {
          fail<ConfigError>(function, "rule must be given");
          return f(Unscaled{});  // never reached; it gives the type
        } else {
          return f(rule);
        }
      },
      settings.rule);
}

}  // namespace detail

/// Number of rotary channels of a head.
///   Throws: ConfigError without a rule.
inline Index rotary_dim(const RotarySettings& settings) {
  return detail::with_rule("RotarySettings", settings,
                           [](const auto& rule) { return detail::rotary_dim_of(rule); });
}

/// Whether the frequencies depend on the length of the sequence (dynamic NTK, dynamic YaRN,
/// LongRoPE).
///   Throws: ConfigError without a rule.
inline bool depends_on_length(const RotarySettings& settings) {
  return detail::with_rule("RotarySettings", settings,
                           []<class Rule>(const Rule&) { return !FrequencyRule<Rule>; });
}

/// Checks what the rules cannot see.
///   Throws: ConfigError that names the field.
inline void validate(const RotarySettings& settings) {
  constexpr auto function = "RotarySettings";
  const Index head_dim = settings.head_dim, offset = settings.rotary_offset;
  if (!settings.pairing) detail::fail<ConfigError>(function, "pairing must be given");
  if (head_dim < 1 || head_dim > detail::largest_head_dim) {
    detail::fail<ConfigError>(function, "head_dim must be given, and from 1 to ",
                              detail::largest_head_dim, ", but is ", head_dim);
  }
  const Index dim = rotary_dim(settings);
  if (settings.index_per_axis &&
      (settings.axes.plain() || !std::holds_alternative<Unscaled>(settings.rule))) {
    detail::fail<ConfigError>(function, "index_per_axis asks for axes and the rule Unscaled");
  }
  if (settings.index_per_axis) detail::check_rotary_dim(function, dim);
  if (settings.chatglm_halves) {
    if (*settings.pairing != PairingKind::HalfRotate || !settings.axes.plain() || offset != 0 ||
        dim != head_dim / 2) {
      detail::fail<ConfigError>(function,
                                "chatglm_halves asks for half pairing, no axes, no rotary_offset, "
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

/// The frequencies of pairs each of which is counted on its own axis; `make` gives those of one axis.
template <class Make>
Frequencies frequencies_per_axis(const RotarySettings& settings, const Make& make) {
  const double base = std::get<Unscaled>(settings.rule).base;
  const PairAxes& axes = settings.axes;
  std::map<Index, std::size_t> pairs_of_axis;  // there may be axes that no pair reads
  for (Index pair = 0; pair < axes.pairs(); ++pair) ++pairs_of_axis[axes.axis(pair)];
  std::map<Index, Frequencies> frequencies_of_axis;
  for (const auto& [axis, pairs] : pairs_of_axis) {
    frequencies_of_axis.emplace(
        axis, make(Unscaled{.rotary_dim = 2 * static_cast<Index>(pairs), .base = base}));
  }
  pairs_of_axis.clear();  // to count once more
  std::vector<DoubleDouble> inv_freq;
  for (Index pair = 0; pair < axes.pairs(); ++pair) {
    const Index axis = axes.axis(pair);
    inv_freq.push_back(detail::exact_inv_freq(frequencies_of_axis.at(axis))[pairs_of_axis[axis]++]);
  }
  return detail::exact_frequencies(std::move(inv_freq));
}

}  // namespace detail

/// The frequencies for a sequence of `length` tokens; rules that do not depend on it ignore it.
///   Throws: ConfigError; PositionError for a negative length.
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

/// The frequencies of a rule that does not depend on the length.
///   Throws: ConfigError.
inline Frequencies frequencies(const RotarySettings& settings) {
  if (depends_on_length(settings)) {
    detail::fail<ConfigError>("frequencies",
                              "this rule's frequencies depend on the length of the sequence, which "
                              "must be given");
  }
  return frequencies(settings, 0);
}

/// What Hugging Face computes in float32 for a sequence of `length` tokens; see AnglePolicy.
///   Throws: ConfigError, for a rule too that Hugging Face does not have; PositionError for a negative
///           length.
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
      return Frequencies::from_inv_freq({});  // never reached; it gives the type
    }
  });
}

namespace detail {

inline AnyRope make_rope(const RotarySettings& settings, Frequencies frequencies,
                         AnglePolicy policy = AnglePolicy::Exact) {
  if (settings.chatglm_halves) return ChatGlmRope(frequencies, policy);
  return AnyRope(*settings.pairing, std::move(frequencies), settings.rotary_offset, settings.axes,
                 policy);
}

}  // namespace detail

/// The rotation for a sequence of `length` tokens, or of any length where the rule does not depend
/// on it. With AnglePolicy::HfFloat32, frequencies and angles are those of Hugging Face's float32.
///   Throws: ConfigError; PositionError for a negative length.
inline AnyRope rope(const RotarySettings& settings, Index length,
                    AnglePolicy policy = AnglePolicy::Exact) {
  return detail::make_rope(settings,
                           policy == AnglePolicy::HfFloat32
                               ? hf_float32_frequencies(settings, length)
                               : frequencies(settings, length),
                           policy);
}
inline AnyRope rope(const RotarySettings& settings) {
  return detail::make_rope(settings, frequencies(settings));
}

POSENC_END
