// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_attention.hpp>
#include <posenc/interop/detail/hf_key_aliases.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_layers.hpp>
#include <posenc/interop/detail/hf_model_types.hpp>
#include <posenc/interop/detail/hf_rotary.hpp>
#include <posenc/interop/detail/hf_scores.hpp>
#include <posenc/interop/detail/hf_sizes.hpp>
#include <posenc/interop/detail/hf_text_config.hpp>
#include <posenc/interop/detail/hf_vision.hpp>
#include <posenc/interop/hf_widths.hpp>
#include <posenc/interop/model_settings.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <concepts>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Reader of a complete configuration of one text model.
class HfReader : HfRotary {
 public:
  HfReader(const nlohmann::json& config, std::string model_type, const HfConfigOptions& options)
      : HfRotary(config, std::move(model_type), options) {}

  ModelSettings read() {
    check_has_rotary();
    hf_require_neutral(config_, "rotary_value", config_.flag("rotary_value"), false);
    read_widths();
    read_layers();
    hf_read_layer_types(config_, type_, model_);
    hf_check_list_lengths(config_, type_.layers.lists_may_be_longer);
    model_.softmax_scale = hf_softmax_scale(config_, type_.scores.scale, head_dim_);
    model_.softcap = hf_softcap(config_, type_.scores.softcap);
    if (const auto temperature = hf_temperature(config_, type_.scores.temperature)) {
      model_.query_temperature = temperature;
    }
    HfAttention(config_, type_, is_known_, model_).read(head_dim_);
    hf_read_sizes(config_, type_.layers.lists_may_be_longer, model_);
    config_.reject_unread([this](std::string_view key, const nlohmann::json& value) {
      if (!is_known_) return hf_is_ignorable_for_unknown_type(key, value);
      return hf_is_ignorable(key, value) || lists_name(type_.file.ignored_keys, key);
    });
    validate(model_);
    return std::move(model_);
  }
};

/// Rejects keys of rotary encoding beside the text model's part that the part does not repeat,
/// because they would be ignored.
inline void reject_rotary_keys_beside(const JsonKeys& keys, const nlohmann::json& config,
                                      const nlohmann::json& text, const std::string& part) {
  constexpr auto words = std::to_array<std::string_view>({"rope_", "rotary"});
  for (auto at = config.begin(); at != config.end(); ++at) {
    if (at->is_null() || !contains_one_of(words, at.key())) continue;
    const auto inner = text.find(at.key());
    if (inner == text.end() || *inner != *at) {
      keys.reject(at.key(), "contradicts " + part);
    }
  }
}

}  // namespace detail

/// Reads a config.json of Hugging Face: the rotary encoding, the scores, and heads and window of
/// each layer. In a multimodal file these are of the text model. Its vision tower (vision_config)
/// is in ModelSettings::vision, which states so if the tower is not supported.
///
/// Both styles are read: the old one (rope_theta, rope_scaling) and the new one (rope_parameters,
/// with or without a dict per layer type). A value in the dict precedes one beside it, and defaults
/// of the model's class come last, as in transformers 5. The exception is
/// original_max_position_embeddings: beside a single dict it precedes the one in the dict, beside
/// one dict per layer type it does not. Where transformers warns or stays silent, this throws. An
/// unknown key whose name suggests positions, scores or windows is an error.
///
/// The options have one field, HfConfigOptions::pairing: the pairing of the channels. It is required
/// for an unknown model_type, and otherwise overrides the type's pairing, for permuted weights.
///
/// YaRN and LongRoPE need the length that the model was trained on. If the file has no
/// original_max_position_embeddings, this is max_position_embeddings, as in transformers. That is
/// wrong if the file states the extended length there: compare original_max_position of the rule
/// with the model's card. Llama 3's scaling requires the key.
///
/// Factors by which a class multiplies all queries or keys are part of the scale of scores.
/// LongCat-Flash has another factor: it multiplies the latent of keys and values by
/// sqrt(hidden_size / kv_lora_rank) after its norm. That factor affects values and non-rotary
/// channels of keys, so no scale can express it, and no setting contains it. Apply it once, to the
/// latent or to the weights of the norm (kv_a_layernorm).
///
/// In layers of LayerKind::Sparse an indexer chooses the keys. It rotates its own queries and keys;
/// their pairing is not in the settings (indexer_rope_interleave is not read).
///   Throws: ConfigError that names the key, for an unknown model_type without options.pairing, an
///           unknown rope type, a key of a rope dict that its type does not have, a key beside the
///           dict that may affect positions or scores, keys that contradict each other, a model
///           without rotary encoding, and settings out of range
///   Source: transformers' modeling_rope_utils.py and configuration classes; vLLM for "ntk",
///           short_mscale and long_mscale
template <std::same_as<nlohmann::json> Json>  // no implicit conversions, for example from text
ModelSettings read_hf_config(const Json& config, const HfConfigOptions& options = {}) {
  const detail::JsonKeys keys(config, "the configuration");
  auto model_type = keys.text("model_type");
  if (const nlohmann::json* thinker = keys.find("thinker_config")) {  // models that also speak
    detail::reject_rotary_keys_beside(keys, config, *thinker, "thinker_config");
    return read_hf_config(*thinker, options);
  }
  const auto [text, part] = detail::hf_text_config(keys);
  std::optional<std::string> inner;
  if (text != nullptr) {
    inner = detail::JsonKeys(*text, part).text("model_type");
    detail::reject_rotary_keys_beside(keys, config, *text, part);
  }
  if (inner && !inner->empty() && !detail::hf_fixes_text_type(model_type)) {
    model_type = inner;
  } else if (model_type) {
    model_type =
        detail::hf_text_type(detail::hf_versioned_type(keys, *model_type), text == nullptr);
  }
  if (!model_type) {
    if (!options.pairing) {
      detail::fail<ConfigError>(
          detail::JsonKeys::function, "the configuration has no model_type",
          keys.find("_class_name") != nullptr
              ? ", but a _class_name: files of diffusers models do not define their rotation"
              : "");
    }
    model_type = "";
  }
  const nlohmann::json& selected = text != nullptr ? *text : config;
  model_type =
      detail::hf_resolved_type(detail::JsonKeys(selected, "the configuration"), *model_type);
  const detail::HfModelType* type = detail::find_hf_model_type(*model_type);
  nlohmann::json canonical = selected;
  if (type != nullptr) {
    if (text != nullptr)
      canonical = detail::hf_with_default_sizes(std::move(canonical), type->file.sizes);
    canonical = detail::hf_with_canonical_names(std::move(canonical), type->file);
  }
  ModelSettings model = detail::HfReader(canonical, *model_type, options).read();
  if (text != nullptr) detail::hf_add_outer_tie(keys, model);
  model.vision = detail::hf_vision(config);
  return model;
}

namespace detail {

/// True if text is the name of a file instead of JSON.
inline bool is_json_path(std::string_view text) noexcept {
  return text.ends_with(".json") && text.find_first_of("{}[]\"\n") == std::string_view::npos;
}

}  // namespace detail

/// Reads the text of a config.json of unknown origin. NaN, Infinity and numbers beyond a double's
/// range, which Python reads and writes, are errors only if their value is needed.
///   Throws: ConfigError as for parsed files; with line and column if the text is not JSON, is
///           nested more than 64 deep, or has a key twice; if it is the name of a file
///   Cost:   linear in the size of the text, plus what the bounds of validate(ModelSettings) allow
inline ModelSettings read_hf_config(std::string_view text, const HfConfigOptions& options = {}) {
  if (detail::is_json_path(text)) {
    detail::fail<ConfigError>(detail::JsonKeys::function,
                              "the argument must be the text of a file, ", "not its name, ", text,
                              ": read it, by std::ifstream for example");
  }
  return read_hf_config(detail::parse_json(text), options);
}

POSENC_END
