// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/compiled.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/json.hpp>
#include <posenc/interop/hf_config_options.hpp>
#include <posenc/interop/model_settings.hpp>

#include <cstdint>
#include <string_view>

POSENC_BEGIN
namespace detail {

/// JSON value of nlohmann-json: nlohmann::json or nlohmann::ordered_json.
template <class Value>
concept NlohmannJson = requires(const Value& value) {
  typename Value::object_t;
  value.is_number_unsigned();
  value.is_discarded();
  value.is_binary();
};

}  // namespace detail

/// Reads the text of a config.json of Hugging Face: the rotary encoding, the scores, and heads and
/// window of each layer. In a multimodal file these are of the text model. Its vision tower
/// (vision_config) is in ModelSettings::vision, which states so if the tower is not supported.
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
/// Texts may be of unknown origin. NaN, Infinity and numbers beyond a double's range, which Python
/// reads and writes, are errors only if their value is needed.
///
/// In layers of LayerKind::Sparse an indexer chooses the keys. It rotates its own queries and keys;
/// their pairing is not in the settings (indexer_rope_interleave is not read).
///   Throws: ConfigError that names the key, for an unknown model_type whose file and options do
///           not state everything, a part that the file does not have, an unknown rope type, a key
///           of a rope dict that its type does not have, a key beside the dict that may affect
///           positions or scores, keys that contradict each other, a model without rotary encoding,
///           and settings out of range. For a text: with line and column if it is not JSON, is
///           nested more than 64 deep, or has a key twice; if it is the name of a file
///   Cost:   linear in the size of the text, plus what the bounds of validate(ModelSettings) allow
///   Source: transformers' modeling_rope_utils.py and configuration classes; vLLM for "ntk",
///           short_mscale and long_mscale
POSENC_DETAIL_READER ModelSettings read_hf_config(std::string_view text,
                                                  const HfConfigOptions& options = {});

/// Overload of read_hf_config() for a config.json that nlohmann-json has parsed.
///   Throws: ConfigError, also for values nested more than 64 deep
template <detail::NlohmannJson Value>  // no implicit conversions, for example from text
ModelSettings read_hf_config(const Value& config, const HfConfigOptions& options = {});

namespace detail {

POSENC_DETAIL_READER ModelSettings read_hf_config_of(const Json& config,
                                                     const HfConfigOptions& options);

/// Returns a value of another library.
template <class Value>
Json json_of(const Value& value, int depth = 0) {
  constexpr int max_depth = 64;
  if (depth > max_depth) {
    fail<ConfigError>("read_hf_config", "the configuration is nested more than 64 deep");
  }
  if (value.is_boolean()) return value.template get<bool>();
  if (value.is_string()) return value.template get_ref<const typename Value::string_t&>();
  if (value.is_number_float()) return value.template get<double>();
  if (value.is_number_integer()) {
    const auto number = value.template get<std::int64_t>();
    const bool is_too_large = value.is_number_unsigned() && number < 0;
    return is_too_large ? Json(value.template get<double>()) : Json(number);
  }
  if (value.is_array()) {
    Json array = Json::array();
    for (const Value& element : value) array.push_back(json_of(element, depth + 1));
    return array;
  }
  if (value.is_object()) {
    Json object = Json::object();
    for (auto at = value.begin(); at != value.end(); ++at) {
      object[at.key()] = json_of(at.value(), depth + 1);
    }
    return object;
  }
  return value.is_null() ? Json() : Json::foreign();
}

}  // namespace detail

template <detail::NlohmannJson Value>
ModelSettings read_hf_config(const Value& config, const HfConfigOptions& options) {
  return detail::read_hf_config_of(detail::json_of(config), options);
}

POSENC_END

#if POSENC_DETAIL_DEFINES_READERS
#include <posenc/interop/detail/hf_attention.hpp>
#include <posenc/interop/detail/hf_head_widths.hpp>
#include <posenc/interop/detail/hf_key_aliases.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_layers.hpp>
#include <posenc/interop/detail/hf_parts.hpp>
#include <posenc/interop/detail/hf_read.hpp>
#include <posenc/interop/detail/hf_rotary.hpp>
#include <posenc/interop/detail/hf_scores.hpp>
#include <posenc/interop/detail/hf_sizes.hpp>
#include <posenc/interop/detail/hf_text_config.hpp>
#include <posenc/interop/detail/hf_unknown_type.hpp>
#include <posenc/interop/detail/hf_vision.hpp>
#include <posenc/interop/detail/json_parser.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/detail/unknown_model.hpp>

#include <array>
#include <optional>
#include <string>
#include <utility>

POSENC_BEGIN
namespace detail {

/// Rejects a name that the caller means to ignore if it has an effect, or if the file lacks it.
inline void hf_check_ignored_keys(const HfRead& read) {
  for_each_name(read.options.ignored_keys, [&read](std::string_view key) {
    check_ignored_key(JsonKeys::function, key, read.config.has(key), read.config.was_read(key));
  });
}

/// Reads the complete configuration of one text model, whose type has this row, if any.
inline ModelSettings hf_read_text_model(const Json& config, const HfModelType* row,
                                        const std::string& model_type,
                                        const HfConfigOptions& options) {
  HfRead read = hf_begin_read(config, row, model_type, options);
  ModelSettings& model = read.model;
  const HfModelType& type = read.type;
  hf_check_has_rotary(read);
  hf_require_neutral(read.config, "rotary_value", read.config.flag("rotary_value"), false);
  hf_read_widths(read);
  hf_read_rope_layers(read);
  hf_read_layer_types(read.config, type, model);
  hf_check_list_lengths(read.config, type.layers.lists_may_be_longer);
  model.softmax_scale = read.is_known
                            ? hf_softmax_scale(read.config, type.scores.scale, read.head_dim)
                            : read.options.softmax_scale;
  model.softcap = hf_softcap(read.config, type.scores.softcap);
  if (const auto temperature = hf_temperature(read.config, type.scores.temperature)) {
    model.query_temperature = temperature;
  }
  HfAttention(read).read();
  hf_read_sizes(read.config, type, model);
  hf_check_ignored_keys(read);
  read.config.reject_unread([&read, &type](std::string_view key, const Json& value) {
    if (lists_name(read.options.ignored_keys, key)) return true;
    if (!read.is_known) return hf_is_ordinary(key, value);
    return hf_is_ignorable(key, value) || lists_name(type.file.ignored_keys, key);
  });
  validate(model);
  return std::move(model);
}

/// Rejects keys of rotary encoding beside the text model's part that the part does not repeat,
/// because they would be ignored.
inline void hf_reject_outer_rotary_keys(const JsonKeys& keys, const Json& text,
                                        const std::string& part) {
  constexpr auto words = std::to_array<std::string_view>({"rope_", "rotary"});
  for (const auto& [key, value] : keys.object().members()) {
    if (value.is_null() || !contains_one_of(words, key)) continue;
    const Json* inner = text.find(key);
    if (inner == nullptr || *inner != value) keys.reject(key, "contradicts " + part);
  }
}

/// Returns the model type of a file, or of one of its parts, whose text model is in `text`.
inline std::string hf_type_of(const JsonKeys& keys, const Json* text, const std::string& text_name,
                              const std::string& default_type, const HfConfigOptions& options) {
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

POSENC_DETAIL_READER ModelSettings read_hf_config_of(const Json& config,
                                                     const HfConfigOptions& options) {
  constexpr auto thinker_key = "thinker_config", name = "the configuration";
  HfPart part = hf_named_part(config, options.part);
  while (const Json* thinker = JsonKeys(*part.config, name).find(thinker_key)) {
    // Models that also speak.
    hf_reject_outer_rotary_keys(JsonKeys(*part.config, name), *thinker, thinker_key);
    part = {thinker, part.path_of(thinker_key)};
  }
  const JsonKeys keys(*part.config, name);
  const auto [text, text_name] = hf_text_config(keys);
  if (text != nullptr) hf_reject_outer_rotary_keys(keys, *text, text_name);
  const std::string model_type = hf_type_of(keys, text, text_name, part.default_type, options);
  const HfModelType* row = find_hf_model_type(model_type);
  const Json& given = text != nullptr ? *text : *part.config;
  const bool is_part = text != nullptr || !part.path.empty();
  ModelSettings model = hf_read_text_model(
      row == nullptr ? given : hf_canonical(given, *row, is_part), row, model_type, options);
  if (text != nullptr) hf_add_outer_tie(keys, model);
  model.vision = hf_vision(*part.config);
  model.part = text != nullptr ? part.path_of(text_name) : part.path;
  model.parts = hf_parts(config);
  return model;
}

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
  return detail::read_hf_config_of(detail::JsonParser(detail::JsonKeys::function, text).parse(),
                                   options);
}

POSENC_END
#endif
