// SPDX-License-Identifier: MIT
// Rules of rope.scaling.type. The public header interop/gguf_rules.hpp has none: it forwards to
// interop/gguf_options.hpp.
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/frequency/rotary_rule.hpp>
#include <posenc/interop/detail/gguf_architecture.hpp>
#include <posenc/interop/detail/gguf_keys.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/gguf_options.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Inputs of a rule beside the keys of its scaling.
struct GgufRuleContext {
  Index rotary_dim = 0;
  double base = 0;
  const GgufArchitecture* architecture = nullptr;
  GgufAttentionFactor attn_factor = GgufAttentionFactor::Unspecified;
};

/// Keys of factors, whose value 1 has no effect.
inline constexpr auto gguf_factor_keys = std::to_array<const char*>(
    {"rope.scaling.factor", "rope.scale_linear", "rope.scale", "rope.scaling.attn_factor"});

/// Returns the factor under its current or an older name. 0 counts as absent.
POSENC_COLD inline double gguf_factor(const GgufKeys& keys) {
  std::optional<double> found;
  for (const char* name : {"rope.scaling.factor", "rope.scale_linear", "rope.scale"}) {
    const auto value = keys.real(name);
    if (!value || *value == 0) continue;
    if (found && *found != *value) keys.reject(name, "contradicts another name of the factor");
    found = value;
  }
  return found.value_or(1);
}

/// Returns the base of global layers, by default llama.cpp's for every architecture.
POSENC_COLD inline double gguf_base(const GgufKeys& keys) {
  return keys.real("rope.freq_base").value_or(10000);
}

POSENC_COLD inline Index gguf_original_length(const GgufKeys& keys) {
  const auto given = keys.integer("rope.scaling.original_context_length");
  const auto length = given ? given : keys.integer("context_length");
  if (!length) keys.reject("context_length", "is missing");
  return *length;
}

/// True if attn_factor is the complete factor of cos and sin, instead of relative to YaRN's own.
POSENC_COLD inline bool gguf_is_final_factor(const GgufKeys& keys, const GgufRuleContext& context,
                                             double attn_factor, double yarn_magnitude) {
  if (context.attn_factor != GgufAttentionFactor::Unspecified) {
    return context.attn_factor == GgufAttentionFactor::Final;
  }
  // A converter that follows llama.cpp writes 1.
  if (yarn_magnitude == 1 || std::abs(attn_factor / yarn_magnitude - 1) > 1e-5) return false;
  if (context.architecture->rope.attn_factor_may_be_final) return true;
  keys.reject("rope.scaling.attn_factor",
              "is YaRN's own magnitude: it is either counted twice or the final factor; choose one "
              "in the options");
}

/// Checks that llama.cpp's softmax scale of DeepSeek's models is that of the model. llama.cpp
/// derives it from the magnitude of cos and sin, which is right only if that is 1.
POSENC_COLD inline void gguf_check_deepseek(const GgufKeys& keys, GgufLogMultiplier meaning,
                                            double factor, double all_dim, double attn_factor) {
  constexpr auto multiplier = "rope.scaling.yarn_log_multiplier";
  if (attn_factor != 1) {
    keys.reject("rope.scaling.attn_factor",
                "is not 1, which would scale scores of this architecture twice");
  }
  if (factor <= 1) return;
  if (meaning == GgufLogMultiplier::Unread) {
    keys.reject("rope.scaling.factor",
                "is not 1, for which llama.cpp scales scores of this architecture by a magnitude "
                "that no key corrects");
  }
  if (all_dim == 0) {
    keys.reject(multiplier,
                "is missing or 0, for which versions of llama.cpp scale scores differently");
  }
  if (meaning == GgufLogMultiplier::TenthOfOne && std::abs(all_dim - 1) > 1e-5) {
    keys.reject(multiplier,
                "is not 0.1, and the effect of other values is unknown in this architecture");
  }
}

/// True if llama.cpp scales the scores of an architecture by a magnitude of cos and sin.
POSENC_COLD inline bool gguf_scales_scores(const GgufArchitecture& architecture) {
  return architecture.rope.log_multiplier == GgufLogMultiplier::Tenth ||
         architecture.rope.log_multiplier == GgufLogMultiplier::TenthOfOne ||
         architecture.rope.log_multiplier == GgufLogMultiplier::Unread;
}

POSENC_COLD inline void gguf_yarn_magnitude(const GgufKeys& keys, const GgufRuleContext& context,
                                            YarnScaling& rule) {
  const GgufLogMultiplier meaning = context.architecture->rope.log_multiplier;
  const bool is_deepseek = gguf_scales_scores(*context.architecture);
  double all_dim = keys.real("rope.scaling.yarn_log_multiplier").value_or(0);
  if (all_dim != 0 && meaning == GgufLogMultiplier::Unknown) {
    keys.reject("rope.scaling.yarn_log_multiplier",
                "has a meaning that differs between architectures and is unknown for this one");
  }
  if (is_deepseek) all_dim *= 10;

  double yarn_magnitude = yarn_mscale(rule.factor);
  const double attn_factor = keys.real("rope.scaling.attn_factor").value_or(1);
  if (is_deepseek) gguf_check_deepseek(keys, meaning, rule.factor, all_dim, attn_factor);
  const bool is_final = gguf_is_final_factor(keys, context, attn_factor, yarn_magnitude);
  // The file does not contain mscale. It equals mscale_all_dim in DeepSeek's models, and is 1 in
  // Mistral's.
  if (all_dim != 0)
    yarn_magnitude = is_deepseek ? 1 : yarn_magnitude / yarn_mscale(rule.factor, all_dim);
  rule.attention_factor = (is_final ? 1 : yarn_magnitude) * attn_factor;
  if (context.architecture->compresses_keys) rule.attention_factor = 1;
  if (is_deepseek && all_dim != 0) rule.mscale_all_dim = all_dim;
}

/// Divisors of the pairs, from the tensors of a file: one list, two lists of LongRoPE, or none.
struct GgufDivisors {
  std::optional<std::vector<double>> freqs, long_factors, short_factors;
};

POSENC_COLD inline GgufDivisors gguf_divisors(const GgufKeys& keys,
                                              const GgufRuleContext& context) {
  // A tensor has an element for each pair of the widest layers. Narrower layers use the first ones.
  const Index pairs = context.rotary_dim / 2,
              widest = pairs * context.architecture->rope.global_part;
  const auto read = [&](std::string_view name) {
    auto divisors = keys.file().rope_tensor(name);
    if (!divisors) return divisors;
    if (static_cast<Index>(divisors->size()) != widest) {
      fail<ConfigError>(GgufKeys::function, "the tensor ", name, " has ", divisors->size(),
                        " elements but there are ", widest, " pairs");
    }
    divisors->resize(static_cast<std::size_t>(pairs));
    return divisors;
  };
  GgufDivisors found{.freqs = read(gguf_freqs_tensor),
                     .long_factors = read(gguf_long_tensor),
                     .short_factors = read(gguf_short_tensor)};
  if (found.long_factors.has_value() != found.short_factors.has_value() ||
      (found.long_factors && found.freqs)) {
    fail<ConfigError>(GgufKeys::function,
                      "there must be rope_factors_long.weight and rope_factors_short.weight, or "
                      "rope_freqs.weight, or none of them");
  }
  return found;
}

POSENC_COLD inline RotaryRule gguf_yarn(const GgufKeys& keys, const GgufRuleContext& context,
                                        const GgufDivisors& divisors, double factor) {
  constexpr auto ext_key = "rope.scaling.yarn_ext_factor",
                 attn_key = "rope.scaling.yarn_attn_factor";
  if (divisors.freqs || divisors.long_factors) {
    fail<ConfigError>(GgufKeys::function,
                      "YaRN together with tensors of divisors is not supported");
  }
  if (keys.real(ext_key).value_or(1) != 1) {
    keys.reject(ext_key, "is not 1, which is not supported");
  }
  if (keys.real(attn_key).value_or(1) != 1) {
    keys.reject(attn_key, "is not 1, and it has no effect in llama.cpp");
  }
  const GgufRope& rope = context.architecture->rope;
  YarnScaling rule{
      .rotary_dim = context.rotary_dim,
      .base = context.base,
      .factor = factor,
      .original_max_position = gguf_original_length(keys),
      .beta_fast = keys.real("rope.scaling.yarn_beta_fast").value_or(rope.beta_fast),
      .beta_slow = keys.real("rope.scaling.yarn_beta_slow").value_or(YarnScaling{}.beta_slow),
      .truncate = rope.rounds_ramp};
  gguf_yarn_magnitude(keys, context, rule);
  return rule;
}

/// Returns a rule that divides frequencies by a factor, by divisors or by both, and multiplies cos
/// and sin by attention_factor.
POSENC_COLD inline RotaryRule gguf_divided(Index rotary_dim, double base, double attention_factor,
                                           double factor = 1,
                                           std::optional<std::vector<double>> divisors = {}) {
  if (!divisors && attention_factor == 1) {
    if (factor == 1) return Unscaled{.rotary_dim = rotary_dim, .base = base};
    return LinearScaling{.rotary_dim = rotary_dim, .base = base, .factor = factor};
  }
  if (!divisors) divisors.emplace(static_cast<std::size_t>(rotary_dim / 2), 1.0);
  for (double& divisor : *divisors) divisor *= factor;
  return DivisorScaling{.rotary_dim = rotary_dim,
                        .base = base,
                        .divisors = *std::move(divisors),
                        .attention_factor = attention_factor};
}

/// Returns the rule of every type except YaRN. LongRoPE's tensors select it for any of them,
/// because older files name no type.
POSENC_COLD inline RotaryRule gguf_divided_or_longrope(const GgufKeys& keys,
                                                       const GgufRuleContext& context,
                                                       const GgufDivisors& divisors,
                                                       double factor) {
  constexpr auto factor_key = "rope.scaling.factor", attn_key = "rope.scaling.attn_factor";
  const double attention_factor = keys.real(attn_key).value_or(1);
  if (gguf_scales_scores(*context.architecture) && (factor != 1 || attention_factor != 1)) {
    keys.reject(factor != 1 ? factor_key : attn_key,
                "is not 1, for which llama.cpp scales scores of this architecture even without "
                "YaRN");
  }
  if (!divisors.long_factors) {
    return gguf_divided(context.rotary_dim, context.base, attention_factor, factor, divisors.freqs);
  }
  if (factor != 1) keys.reject(factor_key, "contradicts the tensors of LongRoPE");
  return LongRopeScaling{.rotary_dim = context.rotary_dim,
                         .base = context.base,
                         .short_factor = *divisors.short_factors,
                         .long_factor = *divisors.long_factors,
                         .original_max_position = gguf_original_length(keys),
                         .attention_factor = attention_factor};
}

/// Type of scaling, and the function that reads its rule.
struct GgufRuleType {
  std::string_view names;
  RotaryRule (*read)(const GgufKeys&, const GgufRuleContext&, const GgufDivisors&, double factor);
  bool has_factor = true;      ///< otherwise the factor is 1, whatever the file says
  bool needs_lists = false;    ///< the file must have the two tensors of LongRoPE
  std::string_view keys = {};  ///< keys that other types reject
};

inline constexpr auto gguf_rule_types = std::to_array<GgufRuleType>(
    {{.names = "none", .read = gguf_divided_or_longrope, .has_factor = false},
     {.names = "linear", .read = gguf_divided_or_longrope},
     {.names = "yarn",
      .read = gguf_yarn,
      .keys =
          "rope.scaling.yarn_ext_factor rope.scaling.yarn_attn_factor rope.scaling.yarn_beta_fast "
          "rope.scaling.yarn_beta_slow rope.scaling.yarn_log_multiplier"},
     {.names = "longrope", .read = gguf_divided_or_longrope, .needs_lists = true}});

/// True if a key belongs to a single type of scaling.
POSENC_COLD inline bool gguf_is_type_key(std::string_view key) {
  return std::any_of(gguf_rule_types.begin(), gguf_rule_types.end(),
                     [key](const GgufRuleType& type) { return lists_name(type.keys, key); });
}

/// Returns the rule of the type that the file names, by default linear.
POSENC_COLD inline RotaryRule gguf_rule(const GgufKeys& keys, const GgufRuleContext& context) {
  const std::string name = keys.text("rope.scaling.type").value_or("linear");
  const GgufRuleType* named = find_row(gguf_rule_types, name);
  if (named == nullptr) {
    keys.reject("rope.scaling.type", "has the unknown value '", std::string_view(name), "'");
  }
  const GgufDivisors divisors = gguf_divisors(keys, context);
  for (const GgufRuleType& other : gguf_rule_types) {
    if (&other == named) continue;
    for_each_name(other.keys, [&](std::string_view key) {
      if (!keys.has(key)) return;
      keys.reject(key, "has no effect, because the scaling is not of the type ", other.names);
    });
  }
  if (named->needs_lists && !divisors.long_factors) {
    fail<ConfigError>(GgufKeys::function,
                      "the type longrope needs the tensors rope_factors_long.weight and "
                      "rope_factors_short.weight");
  }
  return named->read(keys, context, divisors, named->has_factor ? gguf_factor(keys) : 1);
}

}  // namespace detail
POSENC_END
