// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_attention.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_layers.hpp>
#include <posenc/interop/detail/hf_model_types.hpp>
#include <posenc/interop/detail/hf_rotary.hpp>
#include <posenc/interop/detail/hf_scores.hpp>
#include <posenc/interop/detail/hf_text_parts.hpp>
#include <posenc/interop/detail/hf_usual_names.hpp>
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

/// All that a configuration says.
class HfReader : HfRotary {
 public:
  HfReader(const nlohmann::json& config, std::string model_type, const HfConfigOptions& options)
      : HfRotary(config, std::move(model_type), options) {}

  ModelSettings read() {
    refuse_without_rotary();
    hf_only_neutral(config_, "rotary_value", config_.flag("rotary_value"), false);
    read_widths();
    read_layers();
    hf_read_layer_types(config_, type_, model_);
    hf_check_lengths_of_lists(config_, type_.layers.lists_go_on);
    model_.softmax_scale = hf_softmax_scale(config_, type_.scores.scale, head_dim_);
    model_.softcap = hf_softcap(config_, type_.scores.softcap);
    if (const auto temperature = hf_temperature(config_, type_.scores.temperature)) {
      model_.query_temperature = temperature;
    }
    HfAttention(config_, type_, is_known_, model_).read(head_dim_);
    config_.refuse_unread([this](std::string_view key, const nlohmann::json& value) {
      if (!is_known_) return hf_may_ignore_in_unknown(key, value);
      return hf_may_ignore(key, value) || lists_name(type_.file.ignored, key);
    });
    validate(model_);
    return std::move(model_);
  }
};

/// Keys of rotary encoding beside the text model's part would be ignored in silence.
inline void refuse_rotary_keys_beside(const JsonKeys& keys, const nlohmann::json& config,
                                      const nlohmann::json& text, const std::string& part) {
  constexpr auto words = std::to_array<std::string_view>({"rope_", "rotary"});
  for (auto at = config.begin(); at != config.end(); ++at) {
    if (at->is_null() || !contains_one_of(words, at.key())) continue;
    const auto inner = text.find(at.key());
    if (inner == text.end() || *inner != *at) {
      keys.refuse(at.key(), "stands beside " + part + ", which says otherwise");
    }
  }
}

}  // namespace detail

/// What a config.json of Hugging Face says of the rotary encoding, of scores, and of the heads and
/// window of each layer: of the text model where the file describes several. The vision tower beside it
/// (vision_config) is in ModelSettings::vision, which says so where the tower is not one that is read.
///
/// Reads the old style (rope_theta, rope_scaling) and the new one (rope_parameters, per type of
/// layer or not), with a value in the dict before one beside it, and the defaults of the model's
/// class last, as transformers 5 does. Where transformers warns or says nothing, this throws. A key
/// that sounds as if it changed positions, scores or windows and that the reader does not know is an
/// error.
///
/// A factor that a class multiplies all queries or keys with is in the scale of scores. LongCat-Flash has
/// another, sqrt(hidden_size / kv_lora_rank) of the latent that keys and values are made of, after its norm:
/// it reaches values and the channels of keys that do not turn, no scale can say it, and it is in no
/// setting. Who computes that latent multiplies it, or the weights of the norm (kv_a_layernorm), once.
///
/// An indexer, which chooses the keys of layers of LayerKind::Sparse, turns queries and keys of its own. How
/// it pairs them is in no setting (indexer_rope_interleave is not read).
///   Throws: ConfigError that names the key for an unknown model_type without options.pairing, an
///           unknown rope type, a key of a rope dict that its type does not have, a key beside it
///           that may change positions or scores, keys that contradict each other, a model without
///           rotary encoding, and settings out of range
///   Source: transformers' modeling_rope_utils.py and configuration classes; vLLM for "ntk",
///           short_mscale and long_mscale
template <std::same_as<nlohmann::json> Json>  // nothing that merely converts, such as a text
ModelSettings read_hf_config(const Json& config, const HfConfigOptions& options = {}) {
  const detail::JsonKeys keys(config, "the configuration");
  auto model_type = keys.text("model_type");
  if (const nlohmann::json* thinker = keys.find("thinker_config")) {  // of those that also speak
    detail::refuse_rotary_keys_beside(keys, config, *thinker, "thinker_config");
    return read_hf_config(*thinker, options);
  }
  const auto [text, part] = detail::hf_text_part(keys);
  std::optional<std::string> inner;
  if (text != nullptr) {
    inner = detail::JsonKeys(*text, part).text("model_type");
    detail::refuse_rotary_keys_beside(keys, config, *text, part);
  }
  if (inner && !inner->empty() && !detail::hf_fixes_text_type(model_type)) {
    model_type = inner;
  } else if (model_type) {
    model_type =
        detail::hf_text_type(detail::hf_type_with_version(keys, *model_type), text == nullptr);
  }
  if (!model_type) {
    if (!options.pairing) {
      detail::fail<ConfigError>(
          detail::JsonKeys::function, "the configuration has no model_type",
          keys.find("_class_name") != nullptr
              ? ", but a _class_name: models of diffusers say nothing of their rotation in files"
              : "");
    }
    model_type = "";
  }
  const nlohmann::json& own = text != nullptr ? *text : config;
  model_type = detail::hf_meant_type(detail::JsonKeys(own, "the configuration"), *model_type);
  const detail::HfModelType* type = detail::find_hf_model_type(*model_type);
  nlohmann::json usual = own;
  if (type != nullptr) {
    if (text != nullptr) usual = detail::hf_with_class_sizes(std::move(usual), type->file.sizes);
    usual = detail::hf_with_usual_names(std::move(usual), type->file);
  }
  ModelSettings model = detail::HfReader(usual, *model_type, options).read();
  model.vision = detail::hf_vision(config);
  return model;
}

/// The same from the text of the file, which may be anything. NaN, Infinity and numbers beyond a
/// double's range, which Python writes and reads, are errors only where the value is asked for.
///   Throws: ConfigError, also, with line and column, for text that is not JSON, nests more than 64
///           deep, or has a key twice
///   Cost: linear in the size of the text, plus what the bounds of validate(ModelSettings) allow
inline ModelSettings read_hf_config(std::string_view text, const HfConfigOptions& options = {}) {
  return read_hf_config(detail::parse_json(text), options);
}

POSENC_END
