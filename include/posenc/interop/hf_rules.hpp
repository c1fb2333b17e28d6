// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/json_keys.hpp>
#include <posenc/interop/rotary_settings.hpp>

#include <optional>
#include <string>
#include <utility>

POSENC_BEGIN
namespace detail {

/// What a rule needs beside the keys of its own dict.
struct HfRuleContext {
  Index head_dim = 0;    ///< channels that partial_rotary_factor is a share of
  Index rotary_dim = 0;  ///< partial_rotary_factor taken into account
  double base = 0;
  std::optional<double> partial_rotary_factor = std::nullopt;
  Index max_position = 0;                                     ///< 0 if the file does not tell
  std::optional<Index> original_max_position = std::nullopt;  ///< from outside of the dict
  bool softmax_mscale = false;  ///< attention multiplies its scale with mscale_all_dim's magnitude
  bool yarn_is_longrope = false;  ///< old files of Phi-3
};

/// The name of a type of scaling that all of its aliases share.
inline std::string hf_canonical_type(const std::string& type, const HfRuleContext& context) {
  if (type == "su" || (type == "yarn" && context.yarn_is_longrope)) return "longrope";
  if (type == "mrope") return "default";
  if (type == "xdrope") return "dynamic";
  if (type == "deepseek_yarn") return "yarn";
  if (type == "dynamic_yarn") return "dynamic-yarn";
  return type;
}

inline std::string hf_rope_type(const JsonKeys& keys, const HfRuleContext& context) {
  const auto current = keys.text("rope_type"), legacy = keys.text("type");
  if (!current && !legacy) return "default";
  const std::string type = hf_canonical_type(current ? *current : *legacy, context);
  if (legacy && hf_canonical_type(*legacy, context) != type) {
    fail<ConfigError>(JsonKeys::function, keys.name(), " contradicts itself: rope_type is '",
                      *current, "' but type is '", *legacy, "'");
  }
  return type;
}

/// Refuses a setting of other programs that has another value than the one that changes nothing.
template <class T>
void hf_only_neutral(const JsonKeys& keys, const char* key, const std::optional<T>& value,
                     T neutral) {
  if (value && *value != neutral) keys.refuse(key, "has a value that is not supported");
}

/// The trained length: beside the dict, in it, or else (in HF, for some types) the length that the
/// model is made for.
inline Index hf_original_length(const JsonKeys& keys, const HfRuleContext& context,
                                bool may_be_max_position) {
  constexpr auto key = "original_max_position_embeddings";
  const auto nested = keys.integer(key);
  if (context.original_max_position) return *context.original_max_position;
  if (nested) return *nested;
  if (!may_be_max_position || context.max_position == 0) return keys.required<Index>(key, nested);
  return context.max_position;
}

/// The factor; where it is null, how much longer the model is made for than it was trained for.
inline double hf_length_factor(const JsonKeys& keys, const HfRuleContext& context, Index original) {
  const auto factor = keys.real("factor");
  if (factor) return *factor;
  if (context.max_position == 0 || original <= 0) return keys.required<double>("factor", factor);
  return static_cast<double>(context.max_position) / static_cast<double>(original);
}

inline RotaryRule hf_yarn(const JsonKeys& keys, const HfRuleContext& context) {
  YarnScaling rule{.rotary_dim = context.rotary_dim, .base = context.base};
  rule.original_max_position = hf_original_length(keys, context, true);
  rule.factor = hf_length_factor(keys, context, rule.original_max_position);
  // In HF's code 0 is as good as nothing.
  const double beta_fast = keys.real("beta_fast").value_or(0);
  const double beta_slow = keys.real("beta_slow").value_or(0);
  if (beta_fast != 0) rule.beta_fast = beta_fast;
  if (beta_slow != 0) rule.beta_slow = beta_slow;
  rule.truncate = keys.flag("truncate").value_or(true);
  rule.crossing = YarnCrossing::Backwards;

  hf_only_neutral(keys, "extrapolation_factor", keys.real("extrapolation_factor"), 1.0);
  hf_only_neutral(keys, "apply_yarn_scaling", keys.flag("apply_yarn_scaling"), true);
  keys.flag("finetuned");  // tells how the model came about, not how it rotates

  const auto attention_factor = keys.real("attention_factor"), relative = keys.real("attn_factor");
  const double mscale = keys.real("mscale").value_or(0);
  const double all_dim = keys.real("mscale_all_dim").value_or(0);
  if (attention_factor && relative) {
    keys.refuse("attn_factor", "contradicts attention_factor");
  }
  if (attention_factor) {
    rule.attention_factor = attention_factor;
  } else if (relative) {
    rule.attention_factor = yarn_mscale(rule.factor) * *relative;
  } else if (mscale != 0 && all_dim != 0) {
    rule.mscale = mscale;
  }
  if (all_dim == 0) return rule;
  if (context.softmax_mscale) {
    rule.mscale_all_dim = all_dim;
    // HF takes the usual magnitude where mscale is missing.
    if (!rule.mscale && !rule.attention_factor) rule.attention_factor = yarn_mscale(rule.factor);
  } else if (rule.mscale) {
    // Only the ratio of both, and a softmax scale that knows nothing of them.
    rule.attention_factor = yarn_mscale(rule.factor, mscale) / yarn_mscale(rule.factor, all_dim);
    rule.mscale.reset();
  }
  return rule;
}

inline RotaryRule hf_longrope(const JsonKeys& keys, const HfRuleContext& context) {
  LongRopeScaling rule{.rotary_dim = context.rotary_dim, .base = context.base};
  rule.short_factor = keys.required("short_factor", keys.reals("short_factor"));
  rule.long_factor = keys.required("long_factor", keys.reals("long_factor"));
  rule.original_max_position = hf_original_length(keys, context, true);
  rule.short_mscale = keys.real("short_mscale");
  rule.long_mscale = keys.real("long_mscale");
  const auto attention_factor = keys.real("attention_factor");
  const auto factor = keys.real("factor");
  if (rule.short_mscale || rule.long_mscale) {
    if (attention_factor)
      keys.refuse("attention_factor", "contradicts short_mscale or long_mscale");
  } else if (attention_factor) {
    rule.attention_factor = attention_factor;
  } else {
    rule.factor = factor ? *factor : hf_length_factor(keys, context, rule.original_max_position);
  }
  return rule;
}

inline RotaryRule hf_dynamic(const JsonKeys& keys, const HfRuleContext& context) {
  if (const auto alpha = keys.real("alpha")) {
    // Hunyuan's files carry settings of YaRN that its code does not read.
    hf_only_neutral(keys, "factor", keys.real("factor"), 1.0);
    for (const char* unused : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim"}) {
      keys.real(unused);
    }
    return AlphaNtkScaling{.rotary_dim = context.rotary_dim, .base = context.base, .alpha = *alpha};
  }
  const auto original = keys.integer("original_max_position_embeddings");
  if (original && *original != context.max_position) {
    keys.refuse("original_max_position_embeddings",
                "has no effect: the dynamic type begins to scale at max_position_embeddings");
  }
  if (context.max_position == 0) {
    fail<ConfigError>(JsonKeys::function,
                      "the dynamic type needs max_position_embeddings, which is missing");
  }
  return DynamicNtkScaling{.rotary_dim = context.rotary_dim,
                           .base = context.base,
                           .factor = keys.required("factor", keys.real("factor")),
                           .original_max_position = context.max_position};
}

inline RotaryRule hf_dynamic_yarn(const JsonKeys& keys, const HfRuleContext& context) {
  DynamicYarnScaling rule{.rotary_dim = context.rotary_dim, .base = context.base};
  rule.original_max_position = hf_original_length(keys, context, false);
  if (keys.flag("finetuned").value_or(false)) rule.finetuned_max_position = context.max_position;
  rule.crossing = YarnCrossing::Backwards;
  keys.real("factor");  // how far the model was tuned to; the length takes its place
  return rule;
}

inline RotaryRule hf_llama3(const JsonKeys& keys, const HfRuleContext& context) {
  return Llama3Scaling{
      .rotary_dim = context.rotary_dim,
      .base = context.base,
      .factor = keys.required("factor", keys.real("factor")),
      .low_freq_factor = keys.required("low_freq_factor", keys.real("low_freq_factor")),
      .high_freq_factor = keys.required("high_freq_factor", keys.real("high_freq_factor")),
      .original_max_position = hf_original_length(keys, context, false)};
}

inline RotaryRule hf_rule_of_type(const std::string& type, const JsonKeys& keys,
                                  const HfRuleContext& context) {
  const Index dim = context.rotary_dim;
  const double base = context.base;
  if (type == "default") return Unscaled{.rotary_dim = dim, .base = base};
  if (type == "yarn") return hf_yarn(keys, context);
  if (type == "longrope") return hf_longrope(keys, context);
  if (type == "llama3") return hf_llama3(keys, context);
  if (type == "dynamic") return hf_dynamic(keys, context);
  if (type == "dynamic-yarn") return hf_dynamic_yarn(keys, context);
  if (type == "linear") {
    return LinearScaling{
        .rotary_dim = dim, .base = base, .factor = keys.required("factor", keys.real("factor"))};
  }
  if (type == "proportional") {
    return ProportionalScaling{.head_dim = context.head_dim,
                               .base = base,
                               .partial_rotary_factor = context.partial_rotary_factor.value_or(1),
                               .factor = keys.real("factor").value_or(1)};
  }
  if (type == "ntk") {  // vLLM's
    const double factor = keys.required("factor", keys.real("factor"));
    if (const auto mixed_b = keys.real("mixed_b")) {
      return VllmMixedNtkScaling{
          .rotary_dim = dim, .base = base, .factor = factor, .mixed_b = *mixed_b};
    }
    return VllmNtkScaling{.rotary_dim = dim, .base = base, .factor = factor};
  }
  fail<ConfigError>(JsonKeys::function, "the rope type '", type, "' in ", keys.name(),
                    " is unknown");
}

/// The rule that the dict names. Whoever calls this has read the keys that are not the rule's own.
///   Throws: ConfigError for an unknown type, and for every key that the type does not have.
inline RotaryRule hf_rule(const JsonKeys& keys, const HfRuleContext& context) {
  RotaryRule rule = hf_rule_of_type(hf_rope_type(keys, context), keys, context);
  keys.refuse_unread([](const std::string&, const nlohmann::json&) { return false; });
  return rule;
}

}  // namespace detail
POSENC_END
