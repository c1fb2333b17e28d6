// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/hf_layers.hpp>
#include <posenc/interop/hf_model_types.hpp>
#include <posenc/interop/hf_rules.hpp>
#include <posenc/interop/json_keys.hpp>
#include <posenc/interop/model_settings.hpp>
#include <posenc/rotary/multimodal_axes.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

POSENC_STABLE_BEGIN

/// Settings of read_hf_config.
struct HfConfigOptions {
  /// Which channels form a pair. Needed where model_type is unknown; elsewhere it replaces what the
  /// type implies, for weights that were permuted.
  std::optional<PairingKind> pairing = std::nullopt;
};

POSENC_STABLE_END

POSENC_BEGIN
namespace detail {

/// One configuration on its way into ModelSettings.
class HfReader {
 public:
  HfReader(const nlohmann::json& config, std::string model_type, const HfConfigOptions& options)
      : config_(config, "the configuration"), pairing_is_given_(options.pairing.has_value()) {
    model_.model_type = std::move(model_type);
    const HfModelType* known = find_hf_model_type(model_.model_type);
    if (known == nullptr && !options.pairing) {
      fail<ConfigError>(JsonKeys::function, "the model_type '", model_.model_type,
                        "' is unknown; name the pairing of its channels in the options to read it "
                        "as a plain rotary model");
    }
    type_ =
        known != nullptr ? *known : HfModelType{{}, PairingKind::HalfRotate, HfFamily::Plain, 0, 1};
    if (options.pairing) type_.pairing = *options.pairing;
  }

  ModelSettings read() {
    const auto encoding = config_.text("position_embedding_type").value_or("rope");
    if (type_.family == HfFamily::NoRotary || config_.flag("alibi").value_or(false) ||
        !config_.flag("rotary").value_or(true) || (encoding != "rope" && encoding != "rotary")) {
      fail<ConfigError>(JsonKeys::function, "this '", model_.model_type,
                        "' has no rotary encoding");
    }
    hf_only_neutral(config_, "rotary_value", config_.flag("rotary_value"), false);
    read_widths();
    read_layers();
    hf_read_layer_types(config_, type_.family, model_);
    read_softmax_scale();
    // What is left and speaks of rotary encoding would be ignored in silence.
    config_.refuse_unread([](std::string_view key) {
      for (const std::string_view word : {"rope", "rotary"}) {
        if (key.substr(0, word.size()) == word) return true;
      }
      for (const std::string_view part : {"_rope", "_rotary", "ntk"}) {
        if (key.find(part) != std::string_view::npos) return true;
      }
      return false;
    });
    validate(model_);
    return std::move(model_);
  }

 private:
  void read_widths() {
    max_position_ = config_
                        .any_of<Index>({"max_position_embeddings", "n_positions", "max_seq_len",
                                        "max_sequence_length", "seq_length"})
                        .value_or(0);
    model_.trained_length = max_position_;
    original_ = config_.integer("original_max_position_embeddings");
    top_base_ = config_.any_of<double>({"rope_theta", "rotary_emb_base"});
    top_partial_ = config_.any_of<double>(
        {"partial_rotary_factor", "rotary_pct", "rope_pct", "rope_percent", "rotary_emb_fraction"});

    if (type_.family == HfFamily::Mla) {
      const Index plain = config_.required("qk_nope_head_dim", config_.integer("qk_nope_head_dim"));
      const Index turned =
          config_.required("qk_rope_head_dim", config_.integer("qk_rope_head_dim"));
      check_width("qk_nope_head_dim", plain);
      check_width("qk_rope_head_dim", turned);
      head_dim_ = plain + turned;
      rotary_offset_ = plain;
      rotary_width_ = turned;
      if (!config_.flag("rope_interleave").value_or(true) && !pairing_is_given_) {
        type_.pairing = PairingKind::HalfRotate;
      }
      return;
    }
    if (const auto given = config_.any_of<Index>({"head_dim", "kv_channels"})) {
      check_width("head_dim", *given);
      head_dim_ = *given;
    } else if (type_.head_dim != 0) {
      head_dim_ = type_.head_dim;
    } else {
      const Index hidden =
          config_.required("hidden_size", config_.any_of<Index>({"hidden_size", "n_embd"}));
      const Index heads = config_.required(
          "num_attention_heads", config_.any_of<Index>({"num_attention_heads", "n_head"}));
      if (hidden < 1 || heads < 1 || hidden / heads > largest_head_dim) {
        fail<ConfigError>(JsonKeys::function, "hidden_size ", hidden, " and num_attention_heads ",
                          heads, " give no width of a head");
      }
      head_dim_ = hidden / heads;
    }
    rotary_width_ = head_dim_;
  }

  void check_width(const char* key, Index width) const {
    if (width < 1 || width > largest_head_dim) {
      config_.refuse(key, "must lie between 1 and 65536");
    }
  }

  /// The rope dict, or the rope dicts of the types of layers.
  void read_layers() {
    const nlohmann::json* current = config_.find("rope_parameters");
    const nlohmann::json* legacy = config_.find("rope_scaling");
    if (current != nullptr && legacy != nullptr && *current != *legacy) {
      fail<ConfigError>(JsonKeys::function,
                        "rope_parameters and rope_scaling are both given, and differ");
    }
    const nlohmann::json* given = current != nullptr ? current : legacy;
    const std::string name = current != nullptr ? "rope_parameters" : "rope_scaling";
    const nlohmann::json nothing = nlohmann::json::object();
    const nlohmann::json& dict = given != nullptr ? *given : nothing;

    if (is_one_a_type(dict)) {
      for (const auto& [layer_type, parameters] : dict.items()) {
        if (parameters.is_null()) continue;
        add_layer(layer_type, parameters, name + "." + layer_type, top_base_, type_.base);
      }
      return;
    }
    switch (type_.family) {
      case HfFamily::Gemma3: {
        add_layer(full_attention, dict, name, top_base_, type_.base);
        const auto local = config_.real("rope_local_base_freq");
        add_layer(sliding_attention, nothing, "the local layers", local, 10000);
        break;
      }
      case HfFamily::ModernBert:
        if (top_base_) config_.refuse("rope_theta", "contradicts global_rope_theta");
        add_layer(full_attention, dict, name, config_.real("global_rope_theta"), 160000);
        add_layer(sliding_attention, nothing, "the local layers", config_.real("local_rope_theta"),
                  10000);
        break;
      case HfFamily::Olmo3:
        add_layer(full_attention, dict, name, top_base_, type_.base);
        add_layer(sliding_attention, nothing, "the local layers", top_base_, type_.base);
        break;
      default:
        add_layer("", dict, name, top_base_, type_.base);
    }
  }

  static bool is_one_a_type(const nlohmann::json& dict) {
    if (!dict.is_object()) return false;
    bool some = false;
    for (const auto& element : dict) {
      if (!element.is_null() && !element.is_object()) return false;
      some = some || element.is_object();
    }
    return some;
  }

  void add_layer(const std::string& layer_type, const nlohmann::json& dict, const std::string& name,
                 std::optional<double> base, double usual_base) {
    check_layer_types(model_.layers.size() + 1);
    const JsonKeys keys(dict, name);
    HfRuleContext context{.max_position = max_position_,
                          .original_max_position = original_,
                          .softmax_mscale = type_.family == HfFamily::Mla,
                          .yarn_is_longrope = type_.family == HfFamily::Phi3};
    const auto own_base = keys.any_of<double>({"rope_theta", "rotary_emb_base"});
    const auto own_partial = keys.real("partial_rotary_factor");
    context.base = own_base.value_or(base.value_or(usual_base));
    context.partial_rotary_factor = own_partial ? own_partial : top_partial_;

    RotarySettings settings{
        .pairing = type_.pairing, .head_dim = head_dim_, .rotary_offset = rotary_offset_};
    Index width = rotary_width_;
    if (type_.family == HfFamily::Gemma4 && layer_type == full_attention) {
      width = settings.head_dim = config_.integer("global_head_dim").value_or(512);
      check_width("global_head_dim", width);
    }
    if (type_.family == HfFamily::ChatGlm) return add_chatglm(context, settings, keys);

    context.head_dim = width;
    context.rotary_dim = rotary_dim(width, context.partial_rotary_factor);
    settings.axes = axes(keys, context.rotary_dim / 2);
    settings.rule = hf_rule(keys, context);
    model_.layers.push_back({layer_type, std::move(settings)});
  }

  /// int(width * share), as all code has it, or rotary_dim where the file gives that.
  Index rotary_dim(Index width, std::optional<double> share) const {
    const auto given = config_.integer("rotary_dim");
    if (type_.family == HfFamily::GptJ) config_.required("rotary_dim", given);
    // An MLA head's rotary part is rotary as a whole.
    const double part =
        share.value_or(type_.family == HfFamily::Mla ? 1 : type_.partial_rotary_factor);
    if (!(part > 0 && part <= 1)) {
      fail<ConfigError>(JsonKeys::function, "partial_rotary_factor must lie in (0, 1] but is ",
                        part);
    }
    const auto from_share = static_cast<Index>(static_cast<double>(width) * part);
    if (given && share && *given != from_share) {
      fail<ConfigError>(JsonKeys::function, "rotary_dim is ", *given,
                        " but partial_rotary_factor makes it ", from_share);
    }
    const Index dim = given.value_or(from_share);
    if (dim < 2 || dim % 2 != 0 || dim > width) {
      fail<ConfigError>(JsonKeys::function,
                        "the number of rotary channels must be even, and from 2 to ", width,
                        ", but is ", dim);
    }
    return dim;
  }

  PairAxes axes(const JsonKeys& keys, Index pairs) const {
    const auto mrope = keys.integers("mrope_section");
    const auto interleaved = keys.flag("mrope_interleaved");
    const auto xdrope = keys.integers("xdrope_section");
    if (mrope && xdrope) keys.refuse("xdrope_section", "contradicts mrope_section");
    if (interleaved && !mrope) keys.refuse("mrope_interleaved", "needs mrope_section");
    const bool expected = type_.family == HfFamily::ChunkedMrope ||
                          type_.family == HfFamily::InterleavedMrope ||
                          type_.family == HfFamily::ErnieVl;
    if (expected) keys.required("mrope_section", mrope);
    if (!mrope && !xdrope) return {};

    const std::vector<Index>& sections = mrope ? *mrope : *xdrope;
    Index sum = 0;
    for (const Index section : sections) {
      if (section < 0 || section > pairs - sum) {
        keys.refuse(mrope ? "mrope_section" : "xdrope_section",
                    "must hold no negative number and add up to the number of pairs, " +
                        std::to_string(pairs));
      }
      sum += section;
    }
    if (xdrope) return xdrope_axes(sections);
    if (type_.family == HfFamily::ErnieVl) return ernie_axes(sections);
    const bool in_turn = interleaved.value_or(type_.family == HfFamily::InterleavedMrope);
    if (type_.family == HfFamily::InterleavedMrope && !in_turn) {
      keys.refuse("mrope_interleaved", "is false, but models of this type interleave");
    }
    return in_turn ? mrope_interleaved(sections, MropeTail::Time) : mrope_chunked(sections);
  }

  /// ChatGLM-6B turns both halves of a head, by two ids; its successors the first half, by one.
  void add_chatglm(HfRuleContext& context, RotarySettings& settings, const JsonKeys& keys) {
    context.base *= config_.real("rope_ratio").value_or(1);
    context.head_dim = context.rotary_dim = rotary_dim(head_dim_, 0.5);
    settings.chatglm_halves = config_.flag("position_encoding_2d").value_or(false);
    if (settings.chatglm_halves) settings.pairing = PairingKind::HalfRotate;
    config_.flag("original_rope");  // of ChatGLM2: true in all files, read by no code
    settings.rule = hf_rule(keys, context);
    model_.layers.push_back({"", std::move(settings)});
  }

  void read_softmax_scale() {
    const std::string& type = model_.model_type;
    const bool is_gemma = type == "gemma2" || type == "gemma3" || type == "gemma3_text";
    if (const auto scalar = config_.real("query_pre_attn_scalar"); scalar && is_gemma) {
      if (!(*scalar > 0)) config_.refuse("query_pre_attn_scalar", "must be positive");
      model_.softmax_scale = 1 / std::sqrt(*scalar);
    }
    if (type == "granite" || type == "granitemoe") {
      model_.softmax_scale = config_.real("attention_multiplier");
    }
  }

  JsonKeys config_;
  bool pairing_is_given_;
  HfModelType type_{};
  ModelSettings model_;
  Index max_position_ = 0, head_dim_ = 0, rotary_offset_ = 0, rotary_width_ = 0;
  std::optional<Index> original_;
  std::optional<double> top_base_, top_partial_;
};

}  // namespace detail

/// What a config.json of Hugging Face says of the rotary encoding: of the text model where the
/// file describes several.
///
/// Reads the old style (rope_theta, rope_scaling) and the new one (rope_parameters, per type of
/// layer or not), with a value in the dict before one beside it, and the defaults of the model's
/// class last, as transformers 5 does. Where transformers warns or says nothing, this throws:
///   Throws: ConfigError that names the key for an unknown model_type without options.pairing, an
///           unknown rope type, a key of a rope dict that its type does not have, keys that
///           contradict each other, a model without rotary encoding, and settings out of range
///   Source: transformers' modeling_rope_utils.py and configuration classes; vLLM for "ntk",
///           short_mscale and long_mscale
template <std::same_as<nlohmann::json> Json>  // nothing that merely converts, such as a text
ModelSettings read_hf_config(const Json& config, const HfConfigOptions& options = {}) {
  const detail::JsonKeys keys(config, "the configuration");
  const nlohmann::json* text = keys.find("text_config");
  auto model_type = keys.text("model_type");
  if (text != nullptr) {
    const auto inner = detail::JsonKeys(*text, "text_config").text("model_type");
    if (inner) model_type = inner;
  }
  if (!model_type) {
    if (!options.pairing) {
      detail::fail<ConfigError>(detail::JsonKeys::function, "the configuration has no model_type");
    }
    model_type = "";
  }
  return detail::HfReader(text != nullptr ? *text : config, *model_type, options).read();
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
