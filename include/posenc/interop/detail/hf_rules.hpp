// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/frequency/divisors.hpp>
#include <posenc/frequency/rotary_rule.hpp>
#include <posenc/frequency/rule_description.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/json_keys.hpp>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Inputs of a rule from outside of its rope dict (the value of rope_scaling or rope_parameters).
struct HfRuleContext {
  Index full_rotary_dim = 0;  ///< channels of which partial_rotary_factor is a share
  Index rotary_dim = 0;       ///< that share
  double base = 0;
  std::optional<double> partial_rotary_factor = std::nullopt;
  Index max_position = 0;                                     ///< 0 if the file does not give it
  std::optional<Index> original_max_position = std::nullopt;  ///< value outside of the dict
  bool softmax_mscale = false;    ///< attention multiplies its scale by the magnitude of
                                  ///< mscale_all_dim
  bool yarn_is_longrope = false;  ///< old files of Phi-3
};

/// Returns the canonical name of a type of scaling.
POSENC_COLD inline std::string hf_canonical_type(const std::string& type,
                                                 const HfRuleContext& context) {
  if (type == "su" || (type == "yarn" && context.yarn_is_longrope)) return "longrope";
  if (type == "mrope") return "default";
  if (type == "xdrope") return "dynamic";
  if (type == "deepseek_yarn") return "yarn";
  if (type == "dynamic_yarn") return "dynamic-yarn";
  return type;
}

POSENC_COLD inline std::string hf_rope_type(const JsonKeys& keys, const HfRuleContext& context) {
  const auto current = keys.text("rope_type"), legacy = keys.text("type");
  if (!current && !legacy) return "default";
  const std::string type = hf_canonical_type(current ? *current : *legacy, context);
  if (legacy && hf_canonical_type(*legacy, context) != type) {
    fail<ConfigError>(JsonKeys::function, keys.name(), " contradicts itself: rope_type is '",
                      *current, "' but type is '", *legacy, "'");
  }
  return type;
}

/// Rejects a setting of other programs unless it has the value without effect.
template <class T>
void hf_require_neutral(const JsonKeys& keys, const char* key, const std::optional<T>& value,
                        T neutral) {
  if (value && *value != neutral) keys.reject(key, "has a value that is not supported");
}

/// Returns the trained length: beside a single dict, in the dict, or (for some types, as in HF)
/// max_position_embeddings.
POSENC_COLD inline Index hf_original_length(const JsonKeys& keys, const HfRuleContext& context,
                                            bool may_be_max_position) {
  const auto nested = keys.integer(hf_original_length_key);
  if (context.original_max_position) return *context.original_max_position;
  if (nested) return *nested;
  if (!may_be_max_position || context.max_position == 0) {
    return keys.required<Index>(hf_original_length_key, nested);
  }
  return context.max_position;
}

/// Returns the factor. If it is null, returns max_position_embeddings divided by the trained
/// length.
POSENC_COLD inline double hf_length_factor(const JsonKeys& keys, const HfRuleContext& context,
                                           Index original) {
  const auto factor = keys.real("factor");
  if (factor) return *factor;
  if (context.max_position == 0 || original <= 0) return keys.required<double>("factor", factor);
  return static_cast<double>(context.max_position) / static_cast<double>(original);
}

/// True if HfRuleContext gives a field of a rule: a width, the base or the rotary share.
template <class Rule>
bool hf_is_of_context(const Rule& rule, const void* field) {
  if constexpr (requires { rule.partial_rotary_factor; }) {
    if (field == &rule.partial_rotary_factor) return true;
  }
  if constexpr (requires { rule.head_dim; }) {
    if (field == &rule.head_dim) return true;
  }
  if constexpr (requires { rule.rotary_dim; }) {
    if (field == &rule.rotary_dim) return true;
  }
  return field == &rule.base;
}

// Overloads that read one field of a rule, by the field's type. Fields have a key of their own name
// and keep their default without it.

POSENC_COLD inline void hf_read_field(const JsonKeys& keys, std::string_view name, double& field) {
  field = keys.real(name).value_or(field);
}
POSENC_COLD inline void hf_read_field(const JsonKeys& keys, std::string_view name,
                                      std::optional<double>& field) {
  field = keys.real(name);
}
POSENC_COLD inline void hf_read_field(const JsonKeys& keys, std::string_view name, bool& field) {
  field = keys.flag(name).value_or(field);
}
POSENC_COLD inline void hf_read_field(const JsonKeys& keys, std::string_view name,
                                      std::vector<double>& field) {
  if (auto values = keys.reals(name)) field = *std::move(values);
}
/// Overload for the trained length, whose place differs between types.
POSENC_COLD inline void hf_read_field(const JsonKeys&, std::string_view, Index&) {}
POSENC_COLD inline void hf_read_field(const JsonKeys&, std::string_view, YarnCrossing& field) {
  field = YarnCrossing::Backwards;
}

/// Returns a rule with all fields that the file gives, except the trained length.
template <class Rule>
Rule hf_read_given_fields(const JsonKeys& keys, const HfRuleContext& context) {
  Rule rule;
  rule.base = context.base;
  if constexpr (requires { rule.rotary_dim; }) rule.rotary_dim = context.rotary_dim;
  if constexpr (requires { rule.head_dim; }) rule.head_dim = context.full_rotary_dim;
  if constexpr (requires { rule.partial_rotary_factor; }) {
    rule.partial_rotary_factor = context.partial_rotary_factor.value_or(1);
  }
  for_each_field(rule, [&](const char* name, auto& field) {
    if (!hf_is_of_context(rule, &field)) hf_read_field(keys, name, field);
  });
  return rule;
}

/// Rejects a dict that lacks the key of a field without a default.
template <class Rule>
void hf_require_fields(const JsonKeys& keys, const Rule& rule) {
  for_each_field(rule, [&]<class T>(const char* name, const T& field) {
    if constexpr (std::is_same_v<T, double> || std::is_same_v<T, std::vector<double>>) {
      if (!hf_is_of_context(rule, &field) && field == T{} && keys.find(name) == nullptr) {
        keys.required<T>(name, std::nullopt);
      }
    }
  });
}

/// Returns a rule whose fields have the same meaning in the file.
template <class Rule>
RotaryRule hf_read_plain(const JsonKeys& keys, const HfRuleContext& context) {
  auto rule = hf_read_given_fields<Rule>(keys, context);
  hf_require_fields(keys, rule);
  if constexpr (requires { rule.original_max_position; }) {
    rule.original_max_position = hf_original_length(keys, context, false);
  }
  return rule;
}

/// Sets the factors of cos and sin and of the softmax scale of a rule with the keys' values.
POSENC_COLD inline void hf_yarn_magnitude(const JsonKeys& keys, const HfRuleContext& context,
                                          YarnScaling& rule) {
  // HF's code treats 0 as absent.
  if (rule.mscale == 0.0) rule.mscale.reset();
  if (rule.mscale_all_dim == 0.0) rule.mscale_all_dim.reset();
  const auto relative = keys.real("attn_factor");
  if (rule.attention_factor && relative) {
    keys.reject("attn_factor", "contradicts attention_factor");
  }
  if (relative) rule.attention_factor = yarn_mscale(rule.factor) * *relative;
  if (rule.attention_factor || !rule.mscale_all_dim) rule.mscale.reset();
  if (!rule.mscale_all_dim) return;
  if (context.softmax_mscale) {
    // HF uses the usual magnitude if mscale is missing.
    if (!rule.mscale && !rule.attention_factor) rule.attention_factor = yarn_mscale(rule.factor);
    return;
  }
  if (rule.mscale) {
    // Only the ratio of both matters, and the softmax scale ignores them.
    rule.attention_factor =
        yarn_mscale(rule.factor, *rule.mscale) / yarn_mscale(rule.factor, *rule.mscale_all_dim);
    rule.mscale.reset();
  }
  rule.mscale_all_dim.reset();
}

POSENC_COLD inline RotaryRule hf_yarn(const JsonKeys& keys, const HfRuleContext& context) {
  auto rule = hf_read_given_fields<YarnScaling>(keys, context);
  rule.original_max_position = hf_original_length(keys, context, true);
  rule.factor = hf_length_factor(keys, context, rule.original_max_position);
  // HF's code treats 0 as absent.
  if (rule.beta_fast == 0) rule.beta_fast = YarnScaling{}.beta_fast;
  if (rule.beta_slow == 0) rule.beta_slow = YarnScaling{}.beta_slow;

  hf_require_neutral(keys, "extrapolation_factor", keys.real("extrapolation_factor"), 1.0);
  hf_require_neutral(keys, "apply_yarn_scaling", keys.flag("apply_yarn_scaling"), true);
  keys.flag("finetuned");  // about the model's training, not its rotation
  hf_yarn_magnitude(keys, context, rule);
  return rule;
}

/// Returns YaRN with the magnitude 1 + 0.07 ln(factor).
///   Source: vllm, layers/rotary_embedding/telechat3_scaling_rope.py. mlx-lm uses the usual 0.1
///           there
POSENC_COLD inline RotaryRule hf_telechat3_yarn(const JsonKeys& keys,
                                                const HfRuleContext& context) {
  for (const char* other : {"attention_factor", "attn_factor", "mscale", "mscale_all_dim"}) {
    if (keys.find(other) != nullptr) keys.reject(other, "is not supported in this type");
  }
  auto rule = std::get<YarnScaling>(hf_yarn(keys, context));
  rule.attention_factor = yarn_mscale(rule.factor, 0.7);
  return rule;
}

POSENC_COLD inline RotaryRule hf_longrope(const JsonKeys& keys, const HfRuleContext& context) {
  auto rule = hf_read_given_fields<LongRopeScaling>(keys, context);
  hf_require_fields(keys, rule);
  rule.original_max_position = hf_original_length(keys, context, true);
  // Other lists are refused here, before further types of layers read them again.
  constexpr auto rule_name = RuleDescription<LongRopeScaling>::name;
  check_divisors(rule_name, "short_factor", rule.rotary_dim, rule.short_factor);
  check_divisors(rule_name, "long_factor", rule.rotary_dim, rule.long_factor);
  const bool has_mscale = rule.short_mscale || rule.long_mscale;
  if (has_mscale && rule.attention_factor) {
    keys.reject("attention_factor", "contradicts short_mscale or long_mscale");
  }
  if (has_mscale || rule.attention_factor) {
    rule.factor.reset();
  } else {
    rule.factor = hf_length_factor(keys, context, rule.original_max_position);
  }
  return rule;
}

POSENC_COLD inline RotaryRule hf_dynamic(const JsonKeys& keys, const HfRuleContext& context) {
  if (keys.real("alpha")) {
    // Hunyuan's files have settings of YaRN that its code does not read.
    hf_require_neutral(keys, "factor", keys.real("factor"), 1.0);
    for (const char* unused : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim"}) {
      keys.real(unused);
    }
    return hf_read_plain<AlphaNtkScaling>(keys, context);
  }
  const auto original = keys.integer(hf_original_length_key);
  if (original && *original != context.max_position) {
    keys.reject(hf_original_length_key,
                "has no effect: the dynamic type begins to scale at max_position_embeddings");
  }
  if (context.max_position == 0) {
    fail<ConfigError>(JsonKeys::function,
                      "the dynamic type needs max_position_embeddings, which is missing");
  }
  auto rule = hf_read_given_fields<DynamicNtkScaling>(keys, context);
  hf_require_fields(keys, rule);
  rule.original_max_position = context.max_position;
  return rule;
}

/// Returns dynamic YaRN. Other keys of YaRN have no effect in the code that defines this type.
POSENC_COLD inline RotaryRule hf_dynamic_yarn(const JsonKeys& keys, const HfRuleContext& context) {
  DynamicYarnScaling rule{.rotary_dim = context.rotary_dim, .base = context.base};
  rule.original_max_position = hf_original_length(keys, context, false);
  if (keys.flag("finetuned").value_or(false)) rule.finetuned_max_position = context.max_position;
  rule.crossing = YarnCrossing::Backwards;
  keys.real("factor");  // length of the fine-tuning; the sequence length replaces it
  return rule;
}

/// Returns a rule of vLLM's type "ntk".
POSENC_COLD inline RotaryRule hf_ntk(const JsonKeys& keys, const HfRuleContext& context) {
  if (keys.real("mixed_b")) return hf_read_plain<VllmMixedNtkScaling>(keys, context);
  return hf_read_plain<VllmNtkScaling>(keys, context);
}

/// Type of scaling, and the function that reads its rule from the dict.
struct HfRuleType {
  std::string_view name;
  RotaryRule (*read)(const JsonKeys&, const HfRuleContext&);
};

inline constexpr auto hf_rule_types =
    std::to_array<HfRuleType>({{"default", hf_read_plain<Unscaled>},
                               {"linear", hf_read_plain<LinearScaling>},
                               {"llama3", hf_read_plain<Llama3Scaling>},
                               {"proportional", hf_read_plain<ProportionalScaling>},
                               {"yarn", hf_yarn},
                               {"telechat3-yarn", hf_telechat3_yarn},
                               {"longrope", hf_longrope},
                               {"dynamic", hf_dynamic},
                               {"dynamic-yarn", hf_dynamic_yarn},
                               {"ntk", hf_ntk}});

/// Keys of dicts whose encoding is not a rotation.
inline constexpr auto hf_fourier_series_keys =
    std::to_array<const char*>({"fope_init_factor", "fope_sep_head", "num_inv_freq"});

POSENC_COLD inline void hf_reject_fourier_series(const JsonKeys& keys) {
  for (const char* key : hf_fourier_series_keys) {
    if (keys.peek(key) != nullptr) {
      keys.reject(key,
                  "selects Fourier series (FoPE): sums of sines and cosines, with coefficients in "
                  "the weights, which are not a rotation");
    }
  }
}

/// Rejects a max_position_embeddings in the dict that differs from the one beside it. Classes write
/// it and read none in the dict.
POSENC_COLD inline void hf_check_repeated_length(const JsonKeys& keys,
                                                 const HfRuleContext& context) {
  constexpr auto key = "max_position_embeddings";
  if (keys.integer(key).value_or(context.max_position) != context.max_position) {
    keys.reject(key, "contradicts the one beside the dict, which is the one that classes read");
  }
}

/// Returns the rule that the dict names. The caller must have read the keys that are not the
/// rule's.
///   Throws: ConfigError for an unknown type, and for every key that the type does not have
POSENC_COLD inline RotaryRule hf_rule(const JsonKeys& keys, const HfRuleContext& context) {
  const std::string name = hf_rope_type(keys, context);
  hf_reject_fourier_series(keys);
  const auto type = std::find_if(hf_rule_types.begin(), hf_rule_types.end(),
                                 [&name](const HfRuleType& known) { return known.name == name; });
  if (type == hf_rule_types.end()) {
    fail<ConfigError>(JsonKeys::function, "the rope type '", name, "' in ", keys.name(),
                      " is unknown");
  }
  RotaryRule rule = type->read(keys, context);
  hf_check_repeated_length(keys, context);
  keys.reject_unread([&name](const std::string& key, const Json& value) {
    return name == "default" && key == "factor" && value.is_equal(1);  // no effect
  });
  return rule;
}

}  // namespace detail
POSENC_END
