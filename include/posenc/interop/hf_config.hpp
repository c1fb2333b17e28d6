// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/compiled.hpp>
#include <posenc/interop/hf_widths.hpp>
#include <posenc/interop/model_settings.hpp>

#include <concepts>
#include <string_view>

#if POSENC_DETAIL_DEFINES_READERS
#include <nlohmann/json.hpp>
#define POSENC_DETAIL_HAS_JSON 1
#elif __has_include(<nlohmann/json_fwd.hpp>)
#include <nlohmann/json_fwd.hpp>
#define POSENC_DETAIL_HAS_JSON 1
#else
#define POSENC_DETAIL_HAS_JSON 0
#endif

POSENC_BEGIN

#if POSENC_DETAIL_HAS_JSON
/// Reads a config.json of Hugging Face: the rotary encoding, the scores, and heads and window of
/// each layer. In a multimodal file these are of the text model. Its vision tower (vision_config)
/// is in ModelSettings::vision, which states so if the tower is not supported.
///
/// Both styles are read: the old one (rope_theta, rope_scaling) and the new one (rope_parameters,
/// with or without a dict per layer type). A value may stand in the dict, beside it, or in both
/// places if it is the same. Defaults of the model's class come last, as in transformers 5. Where
/// transformers warns or stays silent, this throws. An unknown key whose name suggests positions,
/// scores or windows is an error.
///
/// Nothing is assumed of an unknown model_type: HfConfigOptions must state what its file does not.
/// Its windows are absent, unless the file says that there are none.
///
/// A composite file has several models. HfConfigOptions::part names the one to read, by default the
/// text model; ModelSettings::part and parts say which one that is, and which there are.
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
///   Throws: ConfigError that names the key, for an unknown model_type whose file and options do not
///           state everything, a part that the file does not have, an unknown rope type, a key of a rope dict that its type does not have, a key beside the
///           dict that may affect positions or scores, keys that contradict each other, a model
///           without rotary encoding, and settings out of range
///   Source: transformers' modeling_rope_utils.py and configuration classes; vLLM for "ntk",
///           short_mscale and long_mscale
template <std::same_as<nlohmann::json> Json>  // no implicit conversions, for example from text
ModelSettings read_hf_config(const Json& config, const HfConfigOptions& options = {});
#if POSENC_COMPILED
extern template ModelSettings read_hf_config(const nlohmann::json&, const HfConfigOptions&);
#endif
#endif

/// Reads the text of a config.json of unknown origin. NaN, Infinity and numbers beyond a double's
/// range, which Python reads and writes, are errors only if their value is needed.
///   Throws: ConfigError as for parsed files; with line and column if the text is not JSON, is
///           nested more than 64 deep, or has a key twice; if it is the name of a file
///   Cost:   linear in the size of the text, plus what the bounds of validate(ModelSettings) allow
POSENC_DETAIL_READER ModelSettings read_hf_config(std::string_view text,
                                                  const HfConfigOptions& options = {});

POSENC_END

#if POSENC_DETAIL_DEFINES_READERS
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_attention.hpp>
#include <posenc/interop/detail/hf_key_aliases.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_layers.hpp>
#include <posenc/interop/detail/hf_model_types.hpp>
#include <posenc/interop/detail/hf_parts.hpp>
#include <posenc/interop/detail/hf_rotary.hpp>
#include <posenc/interop/detail/hf_scores.hpp>
#include <posenc/interop/detail/hf_sizes.hpp>
#include <posenc/interop/detail/hf_text_config.hpp>
#include <posenc/interop/detail/hf_unknown_type.hpp>
#include <posenc/interop/detail/hf_vision.hpp>
#include <posenc/interop/detail/names.hpp>

#include <array>
#include <optional>
#include <string>
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
    model_.softmax_scale = is_known_ ? hf_softmax_scale(config_, type_.scores.scale, head_dim_)
                                     : options_.softmax_scale;
    model_.softcap = hf_softcap(config_, type_.scores.softcap);
    if (const auto temperature = hf_temperature(config_, type_.scores.temperature)) {
      model_.query_temperature = temperature;
    }
    HfAttention(config_, type_, is_known_, model_).read(head_dim_);
    hf_read_sizes(config_, type_.layers.lists_may_be_longer, is_known_, model_);
    check_ignored_keys();
    config_.reject_unread([this](std::string_view key, const nlohmann::json& value) {
      if (lists_name(options_.ignored_keys, key)) return true;
      if (!is_known_) return hf_is_ordinary(key, value);
      return hf_is_ignorable(key, value) || lists_name(type_.file.ignored_keys, key);
    });
    validate(model_);
    return std::move(model_);
  }

 private:
  /// Rejects a name that the caller means to ignore if it has an effect, or if the file lacks it.
  void check_ignored_keys() const {
    for_each_name(options_.ignored_keys, [this](std::string_view name) {
      const std::string key(name);
      const bool is_read = config_.was_read(key);
      if (config_.has(key) && !is_read) return;
      fail<ConfigError>(JsonKeys::function, "ignored_keys names '", key, "', which ",
                        is_read && config_.has(key) ? "has an effect" : "the file does not have");
    });
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

/// Returns the model type of a file, or of one of its parts, whose text model is in `text`.
inline std::string hf_type_of(const JsonKeys& keys, const nlohmann::json* text,
                              const std::string& text_name, const std::string& default_type,
                              const HfConfigOptions& options) {
  auto model_type = keys.text("model_type");
  if (model_type.value_or("").empty() && !default_type.empty()) model_type = default_type;
  const auto inner = text != nullptr ? JsonKeys(*text, text_name).text("model_type") : std::nullopt;
  if (inner && !inner->empty() && !hf_fixes_text_type(model_type)) {
    model_type = inner;
  } else if (model_type) {
    model_type = hf_text_type(hf_versioned_type(keys, *model_type), text == nullptr);
  }
  if (!model_type && !options.pairing) {
    fail<ConfigError>(JsonKeys::function, "the configuration has no model_type",
                      keys.find("_class_name") != nullptr
                          ? ", but a _class_name: files of diffusers models do not define their "
                            "rotation"
                          : "");
  }
  const JsonKeys selected(text != nullptr ? *text : keys.object(), "the configuration");
  return hf_resolved_type(selected, model_type.value_or(""));
}

/// Reads the text model of a file, or of the part with this path.
inline ModelSettings hf_read_model(const nlohmann::json& config, const std::string& path,
                                   const std::string& default_type,
                                   const HfConfigOptions& options) {
  const JsonKeys keys(config, "the configuration");
  const std::string prefix = path.empty() ? "" : path + '.';
  constexpr auto thinker_key = "thinker_config";
  if (const nlohmann::json* thinker = keys.find(thinker_key)) {  // models that also speak
    reject_rotary_keys_beside(keys, config, *thinker, thinker_key);
    return hf_read_model(*thinker, prefix + thinker_key, "", options);
  }
  const auto [text, text_name] = hf_text_config(keys);
  if (text != nullptr) reject_rotary_keys_beside(keys, config, *text, text_name);
  const std::string model_type = hf_type_of(keys, text, text_name, default_type, options);
  const HfModelType* type = find_hf_model_type(model_type);
  nlohmann::json canonical = text != nullptr ? *text : config;
  if (type != nullptr) {
    if (text != nullptr || !path.empty())
      canonical = hf_with_default_sizes(std::move(canonical), type->file.sizes);
    canonical = hf_with_canonical_names(std::move(canonical), type->file);
  }
  ModelSettings model = HfReader(canonical, model_type, options).read();
  if (text != nullptr) hf_add_outer_tie(keys, model);
  model.vision = hf_vision(config);
  model.part = text != nullptr ? prefix + text_name : path;
  return model;
}

}  // namespace detail

template <std::same_as<nlohmann::json> Json>
ModelSettings read_hf_config(const Json& config, const HfConfigOptions& options) {
  const auto part = detail::hf_named_part(config, options.part);
  ModelSettings model = detail::hf_read_model(*part.config, part.path, part.default_type, options);
  model.parts = detail::hf_parts(config);
  return model;
}

namespace detail {

/// True if text is the name of a file instead of JSON.
inline bool is_json_path(std::string_view text) noexcept {
  return text.ends_with(".json") && text.find_first_of("{}[]\"\n") == std::string_view::npos;
}

}  // namespace detail

POSENC_DETAIL_READER ModelSettings read_hf_config(std::string_view text,
                                                  const HfConfigOptions& options) {
  if (detail::is_json_path(text)) {
    detail::fail<ConfigError>(detail::JsonKeys::function,
                              "the argument must be the text of a file, ", "not its name, ", text,
                              ": read it, by std::ifstream for example");
  }
  return read_hf_config(detail::parse_json(text), options);
}

POSENC_END
#endif
