// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_custom_layers.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/json_keys.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Conversion of model-specific keys to the usual ones, and types whose name alone does not identify
// the model.
POSENC_BEGIN
namespace detail {

/// Adds the usual name of a key. Another value under that name is an error.
POSENC_COLD inline void hf_set_canonical(Json& config, const JsonKeys& keys, const std::string& key,
                                         const std::string& canonical, const Json& value) {
  const Json* given = config.find(canonical);
  if (given != nullptr && !given->is_null() && *given != value) {
    keys.reject(key, "contradicts ", std::string_view(canonical));
  }
  config[canonical] = value;
}

/// Moves base and rule from a part "rotary", which InternLM's first models of 20B have.
POSENC_COLD inline void hf_move_rotary_part(const JsonKeys& whole, Json& config) {
  constexpr auto part = "rotary";
  const Json* nested = whole.find(part);
  if (nested == nullptr || !nested->is_object()) return;
  config.erase(part);
  const JsonKeys keys(*nested, part);
  if (const auto base = keys.real("base"))
    hf_set_canonical(config, keys, "base", "rope_theta", *base);
  const auto type = keys.text("type").value_or("origin");
  if (type != "origin" && type != "dynamic") keys.reject("type", "has an unknown value");
  const double factor = keys.real("scaling_factor").value_or(1);
  if (type == "dynamic") {
    hf_set_canonical(config, keys, "type", "rope_scaling",
                     Json::object({{"type", type}, {"factor", factor}}));
  }
  keys.reject_unread(hf_is_ignorable);
}

/// Sets the rule that follows from the ratio of two lengths, that of training and that of the base.
/// Beyond the trained length the base grows with the text, which is not supported.
///   Source: Tele-AI's modeling_telechat.py, RotaryEmbedding, for texts up to training_seqlen
POSENC_COLD inline void hf_set_alpha_of_lengths(const JsonKeys& keys, Json& config) {
  const auto base = keys.integer("base_seqlen"), trained = keys.integer("training_seqlen");
  if (trained) config["max_position_embeddings"] = *trained;
  if (trained && !base) {
    keys.reject("training_seqlen",
                "needs base_seqlen, whose default differs between releases of the class");
  }
  if (!base || !trained || *trained <= *base || *base < 1) return;
  if (keys.find("rope_scaling") != nullptr) keys.reject("rope_scaling", "contradicts base_seqlen");
  // ceil(log2(trained / base)). The comparison is base * 2^steps < trained without overflow.
  int steps = 0;
  while (*base <= (*trained - 1) >> steps) ++steps;
  const double alpha = std::ldexp(1.0, steps + 1) - 1;
  config["rope_scaling"] = Json::object({{"type", "dynamic"}, {"alpha", alpha}});
}

/// Returns the rope dict under either name, and that name; {nullptr, nullptr} if there is none.
POSENC_COLD inline std::pair<const Json*, const char*> hf_rope_dict(const JsonKeys& keys) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    const Json* dict = keys.find(name);
    if (dict != nullptr && dict->is_object()) return {dict, name};
  }
  return {nullptr, nullptr};
}

/// Converts a list of the scaled layers. The other layers rotate with the same base, unscaled.
///   Source: huggingface/transformers, molmo2/configuration_molmo2.py (05c6ac4); allenai/molmo2,
///           the conversion of its checkpoints
POSENC_COLD inline void hf_set_scaled_layers(const JsonKeys& keys, Json& config) {
  constexpr auto list = "rope_scaling_layers";
  const auto given = keys.integers(list);
  config.erase(list);
  const auto [dict, name] = hf_rope_dict(keys);
  const auto layers = hf_layer_count(keys);
  if (!given || dict == nullptr || !layers) return;
  const auto scaled = hf_listed_layers(keys, list, layers);
  const auto types = hf_layer_types_from_list(scaled, *layers, full_attention, unscaled_attention);
  if (std::find(types.begin(), types.end(), unscaled_attention) == types.end()) return;
  Json plain = Json::object();
  if (const Json* base = dict->find("rope_theta")) plain["rope_theta"] = *base;
  if (scaled.empty()) {
    config[name] = plain;
    return;
  }
  hf_set_canonical(config, keys, list, "layer_types", types);
  Json scaling = *dict;
  const auto outer = keys.integer(hf_original_length_key);
  if (outer && scaling.contains(hf_original_length_key)) {
    scaling[hf_original_length_key] = *outer;  // precedes that of a single dict, as the file has it
  }
  config[name] = Json::object({{full_attention, scaling}, {unscaled_attention, plain}});
}

/// Sets the number of query heads: as many as KV heads per expert of a token.
POSENC_COLD inline void hf_set_heads_of_experts(const JsonKeys& keys, Json& config) {
  const Index groups = keys.integer("num_key_value_heads").value_or(16);
  const Index experts = keys.any_of<Index>({"num_experts_per_tok", "moe_top_k"}).value_or(2);
  if (groups < 1 || groups > 4096 || experts < 1 || experts > 4096) {
    keys.reject("num_key_value_heads", "and num_experts_per_tok must lie between 1 and 4096");
  }
  config["num_key_value_heads"] = groups;
  config["num_attention_heads"] = groups * experts;
  config.erase("n_head");
}

/// Returns layer types from a list of marks: `marked` where the mark is not 0, full_attention
/// elsewhere.
POSENC_COLD inline Json hf_layer_types_from_marks(const std::vector<Index>& marks,
                                                  const char* marked) {
  Json types = Json::array();
  for (const Index mark : marks) types.push_back(mark != 0 ? marked : "full_attention");
  return types;
}

/// Converts marks of layers that see only some blocks of keys.
POSENC_COLD inline void hf_set_sparse_layers(const JsonKeys& keys, Json& config) {
  constexpr auto part = "sparse_attention_config";
  const Json* nested = keys.find(part);
  config.erase(part);  // other keys of the part say how keys are chosen
  if (nested == nullptr || keys.find("layer_types") != nullptr) return;
  const auto sparse = JsonKeys(*nested, part).integers("sparse_attention_freq");
  if (sparse) config["layer_types"] = hf_layer_types_from_marks(*sparse, "minimax_m3_sparse");
}

/// Marks all layers as sparse if the file has a part that says how blocks of keys are chosen
/// (InfLLM v2).
POSENC_COLD inline void hf_set_all_layers_sparse(const JsonKeys& keys, Json& config) {
  constexpr auto part = "sparse_config", count = "num_hidden_layers";
  config.erase(part);  // its keys say how blocks are chosen
  if (keys.find(part) == nullptr) return;
  const Index layers = keys.required(count, hf_layer_count(keys));
  hf_set_canonical(config, keys, part, "layer_types",
                   std::vector<std::string>(static_cast<std::size_t>(layers), "minicpm_sparse"));
}

/// Converts marks of layers with a window.
POSENC_COLD inline void hf_set_window_layers(const JsonKeys& keys, Json& config) {
  constexpr auto list = "sliding_window_layout";
  keys.required("rope_layout", keys.integers("rope_layout"));
  config["layer_types"] =
      hf_layer_types_from_marks(keys.required(list, keys.integers(list)), "sliding_attention");
  config.erase(list);
}

/// Rejects other rotations and blocks of MolmoE's files, which hold every setting of OLMo's code.
POSENC_COLD inline void hf_reject_other_blocks(const JsonKeys& keys, Json&) {
  for (const auto& [key, other] :
       {std::pair("rope_impl", "interleave"), std::pair("block_type", "gemma")}) {
    if (keys.text(key) != other) continue;
    keys.reject(key, "is ", other, ", which is not supported in this model");
  }
}

/// Converts a list of attention layers by type to one by index.
POSENC_COLD inline void hf_set_attention_indices(const JsonKeys& keys, Json& config) {
  constexpr auto indices = "attn_layer_indices";
  for (const char* list : {"layer_types", "layers_block_type"}) {
    const Json* types = config.find(list);
    if (types == nullptr || types->is_null()) continue;
    Json attending = Json::array();
    Index layer = 0;
    for (const Json& type : types->elements()) {
      const bool attends = type.is_text("attention");
      if (!attends && !type.is_text("mamba")) keys.reject(list, "has an unknown type");
      if (attends) attending.push_back(layer);
      ++layer;
    }
    config.erase(list);
    hf_set_canonical(config, keys, list, indices, attending);
  }
}

/// Converts a count of layers that attend twice, with equal settings, in LongCat-Flash.
/// Rejects a file that switches the factors of latents off, or that lacks their switches although
/// it must have them.
POSENC_COLD inline void hf_convert_double_layers(const JsonKeys& keys, Json& config,
                                                 bool must_have_switches) {
  constexpr auto method = "attention_method";
  if (keys.text(method).value_or("MLA") != "MLA") keys.reject(method, "must be MLA");
  config.erase(method);
  for (const char* is_scaled : {"mla_scale_q_lora", "mla_scale_kv_lora"}) {
    const auto given = keys.flag(is_scaled);
    if (must_have_switches) keys.required(is_scaled, given);
    if (!given.value_or(true)) {
      keys.reject(is_scaled, "is false, which classes of this model read differently");
    }
    config.erase(is_scaled);
  }
  constexpr auto alias = "num_layers", canonical = "num_hidden_layers";
  const auto layers = keys.integer(alias), twice = keys.integer(canonical);
  if (!layers) return;
  if (twice && *twice != *layers && (*twice % 2 != 0 || *twice / 2 != *layers)) {
    keys.reject(canonical, "contradicts num_layers");
  }
  config[canonical] = *layers;
  config.erase(alias);
}

/// Converts LongCat-Flash. Its factors of latents are always on in transformers' class, which has
/// no switches for them.
///   Source: huggingface/transformers, longcat_flash/configuration_longcat_flash.py (008e574) and
///           modular_longcat_flash.py (0469a35)
POSENC_COLD inline void hf_set_double_layers(const JsonKeys& keys, Json& config) {
  hf_convert_double_layers(keys, config, false);
}

/// Converts LongCat-Flash with n-grams, which transformers' class does not cover: its files must
/// have the switches. A nested part that names no type may omit them.
POSENC_COLD inline void hf_set_double_layers_with_switches(const JsonKeys& keys, Json& config) {
  hf_convert_double_layers(keys, config, !keys.text("model_type").value_or("").empty());
}

/// Sets the width of heads of hybrid layers, which attend to the stream and the embedding side by
/// side, so that their heads are twice as wide.
///   Source: huggingface/transformers, zamba2/configuration_zamba2.py (02f5807) and
///           modular_zamba2.py (00511f5)
POSENC_COLD inline void hf_set_double_width(const JsonKeys& keys, Json& config) {
  constexpr auto canonical = "layers_block_type", long_key = "use_long_context",
                 rope_key = "use_mem_rope";
  constexpr Index max_hidden = Index{1} << 32;
  if (keys.flag(long_key).value_or(false)) {
    keys.reject(long_key, "is true, which releases of the class read differently");
  }
  std::optional<Json> types;
  for (const char* list : {canonical, "layer_types"}) {
    const auto given = keys.texts(list);
    if (!given) continue;
    Json converted = Json::array();
    for (const auto& type : *given) {
      if (type != "hybrid" && type != "mamba" && type != "linear_attention") {
        keys.reject(list, "has the type '", std::string_view(type),
                    "', which is unknown in this model");
      }
      converted.push_back(type == "hybrid" ? "attention" : "mamba");
    }
    if (types && *types != converted) keys.reject(list, "contradicts ", canonical);
    config.erase(list);
    types = std::move(converted);
  }
  const Index hidden = keys.required("hidden_size", keys.integer("hidden_size"));
  const Index heads = keys.required("num_attention_heads", keys.integer("num_attention_heads"));
  if (hidden < 1 || heads < 1 || heads > max_hidden || hidden > max_hidden ||
      hidden / heads > 4096) {
    keys.reject("hidden_size", "and num_attention_heads do not define the width of a head");
  }
  for (const auto& [key, value] :
       {std::pair("attention_hidden_size", 2 * hidden), std::pair("kv_channels", hidden / heads)}) {
    if (keys.integer(key).value_or(value) != value) keys.reject(key, "contradicts hidden_size");
    config.erase(key);
  }
  const bool is_rotated = keys.flag(rope_key).value_or(false);
  config[canonical] = keys.required(canonical, types);
  hf_set_canonical(config, keys, "hidden_size", "head_dim", 2 * hidden / heads);
  hf_set_canonical(config, keys, rope_key, "position_embedding_type", is_rotated ? "rope" : "nope");
  for (const char* other :
       {rope_key, long_key, "use_shared_attention_adapter", "use_shared_attention_lora"}) {
    config.erase(other);
  }
}

/// Removes settings of scaling from files whose rope_type has none, and a cap that is null.
POSENC_COLD inline void hf_drop_unused_scaling(const JsonKeys& keys, Json& config) {
  constexpr auto key = "rope_type", cap = "attn_logit_softcapping";
  const Json* given = config.find(cap);
  if (given != nullptr && given->is_null()) config.erase(cap);  // equivalent to no key
  const auto type = keys.text(key);
  if (!type) return;
  if (*type != "original") keys.reject(key, "has a value that is not supported");
  config.erase(key);
  for (const char* unused :
       {"scaling_factor", "extrapolation_factor", "attn_factor", "beta_fast", "beta_slow"}) {
    keys.real(unused);
    config.erase(unused);
  }
}

/// Returns the type that a file means if its model_type is ambiguous or that of another model.
POSENC_COLD inline std::string hf_resolved_type(const JsonKeys& keys, const std::string& type) {
  const auto has_class = [&keys](std::string_view name) {
    const Json* classes = keys.find("architectures");
    return classes != nullptr && std::any_of(classes->elements().begin(), classes->elements().end(),
                                             [name](const Json& one) { return one.is_text(name); });
  };
  // Grok 2's files name a type of image captioning models.
  if (type == "git" && has_class("Grok1ForCausalLM")) return "grok-2";
  // Jina's third embedding model has its own code.
  const Json* encoding = keys.find("position_embedding_type");
  if (type == "xlm-roberta" && encoding != nullptr && encoding->is_text("rotary")) {
    return "jina_embeddings_v3";
  }
  // Without latent attention the model has Llama's attention.
  const Json* latent = keys.find("use_mla");
  if (type == "deepseek_v2" && latent != nullptr && latent->is_flag(false) &&
      keys.integer("qk_rope_head_dim").value_or(0) == 0) {
    return "deepseek";
  }
  // MiniMax-M3's files name the type of the second model.
  if (type == "minimax_m2" && keys.find("sparse_attention_config") != nullptr) {
    return "minimax_m3_vl_text";
  }
  if (type == "minicpmv" && keys.find("scale_depth") != nullptr) return "minicpm";
  return type;
}

}  // namespace detail
POSENC_END
