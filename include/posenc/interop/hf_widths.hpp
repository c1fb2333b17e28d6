// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/compiled.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/rotary/pairing.hpp>

#include <optional>
#include <string_view>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Settings of read_hf_config. For an unknown model_type nothing is assumed: what its file does not
/// state must be set here. The error message lists what is missing.
struct HfConfigOptions {
  /// Pairing of the channels. Required if model_type is unknown; otherwise it overrides the type's
  /// pairing, for permuted weights.
  std::optional<PairingKind> pairing = std::nullopt;
  /// Order of the axes of mrope_section. Required if neither the type nor the key
  /// mrope_interleaved defines it.
  std::optional<MropeOrder> mrope_order = std::nullopt;
  /// Share of a head that is rotated, 1 for all channels. Required for an unknown type whose file
  /// has neither partial_rotary_factor nor rotary_dim; an error for known types.
  std::optional<double> rotary_share = std::nullopt;
  /// Scale of scores, usually head_dim^-1/2, without soft cap and temperature. Required for an
  /// unknown type; an error for known types.
  std::optional<double> softmax_scale = std::nullopt;
  /// Names, separated by spaces, of keys that change neither positions nor scores. For an unknown
  /// type all keys that the reader does not understand must be named.
  std::string_view ignored_keys = {};
  /// Part of a composite file that is read, as a path of keys, "talker_config.text_config". Empty:
  /// the text model. ModelSettings::parts lists the parts of a file.
  std::string_view part = {};
};

static_assert(std::is_trivially_copyable_v<HfConfigOptions>);

POSENC_STABLE_END

#if POSENC_DETAIL_DEFINES_READERS
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_model_types.hpp>
#include <posenc/interop/detail/hf_rules.hpp>
#include <posenc/interop/detail/hf_unknown_type.hpp>
#include <posenc/interop/detail/hf_unsupported_types.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/model_settings.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Returns int(width * share), as all implementations compute it.
///   Throws: ConfigError if the share is not in (0, 1]
inline Index hf_width_of_share(Index width, double share) {
  if (!(share > 0 && share <= 1)) {
    fail<ConfigError>(JsonKeys::function, "partial_rotary_factor must lie in (0, 1] but is ",
                      share);
  }
  return static_cast<Index>(static_cast<double>(width) * share);
}

/// First stage of reading a configuration: its model type and widths.
class HfWidths {
 protected:
  HfWidths(const Json& config, std::string model_type, const HfConfigOptions& options)
      : config_(config, "the configuration"), options_(options) {
    model_.model_type = std::move(model_type);
    if (const UnsupportedModel* refused = find_row(hf_unsupported_types, model_.model_type)) {
      reject_unsupported_type(*refused);
    }
    const HfModelType* known = find_hf_model_type(model_.model_type);
    is_known_ = known != nullptr;
    if (is_known_) {
      reject_options_of_unknown_types();
    } else {
      require_statements(config);
    }
    type_ = is_known_ ? *known : HfModelType{.names = {}, .rope = {.base = 0}};
    if (options.pairing) type_.rope.pairing = options.pairing;
  }

  [[noreturn]] void reject_unsupported_type(const UnsupportedModel& type) const {
    constexpr auto key = "position_embedding_type";
    const Json* encoding = config_.find(key);
    if (!type.has_rotary && encoding != nullptr && (encoding->is_text("rotary") || encoding->is_text("rope"))) {
      config_.reject(key, "selects a rotary encoding, which no class of this type has");
    }
    if (type.has_rotary) {
      fail<ConfigError>(JsonKeys::function, "the model_type '", model_.model_type,
                        "' is not supported: it has ", type.has);
    }
    fail<ConfigError>(JsonKeys::function, "this '", model_.model_type,
                      "' has no rotary encoding: it has ", type.has);
  }

  void reject_options_of_unknown_types() const {
    if (!options_.rotary_share && !options_.softmax_scale) return;
    fail<ConfigError>(JsonKeys::function, options_.rotary_share ? "rotary_share" : "softmax_scale",
                      " must not be set for the known model_type '", model_.model_type, "'");
  }

  /// Rejects an unknown type unless file and options state everything that a class would define.
  void require_statements(const Json& config) const {
    std::string missing;
    const auto need = [&missing](const char* option, bool is_stated) {
      if (!is_stated) missing += (missing.empty() ? "" : ", ") + std::string(option);
    };
    need("pairing", options_.pairing.has_value());
    need("mrope_order", options_.mrope_order || hf_states_axes(config));
    need("rotary_share", options_.rotary_share || hf_states_share(config));
    need("softmax_scale", options_.softmax_scale.has_value());
    const std::string foreign = hf_foreign_keys(config, options_.ignored_keys);
    if (missing.empty() && foreign.empty()) return;
    std::string advice = missing.empty() ? "" : "set in the options: " + missing;
    if (!foreign.empty()) {
      advice += std::string(missing.empty() ? "" : "; ") +
                "name in ignored_keys, if they change neither positions nor scores: " + foreign;
    }
    fail<ConfigError>(JsonKeys::function, "the model_type '", model_.model_type,
                      "' is unknown; to read it as a plain rotary model, ", advice);
  }

  void check_has_rotary() const {
    constexpr auto encoding_key = "position_embedding_type", depth_key = "num_hidden_layers";
    const HfTypeFile& file = type_.file;
    std::string encoding(file.encoding);
    if (!lists_name(file.ignored_keys, encoding_key)) {
      encoding = config_.text(encoding_key).value_or(encoding);
    }
    const bool is_half = type_.rope.pairing == PairingKind::HalfRotate;
    const bool is_interleaved_rope = encoding == "rope_gptj" && !is_half;
    const bool has_no_dict =
        file.needs_rope_parameters && config_.find("rope_parameters") == nullptr;
    if (has_no_dict || config_.flag("alibi").value_or(false) ||
        !config_.flag("rotary").value_or(true) || has_rope_off() ||
        (encoding != "rope" && encoding != "rotary" && !is_interleaved_rope)) {
      fail<ConfigError>(JsonKeys::function, "this '", model_.model_type,
                        "' has no rotary encoding");
    }
    if (file.only_depth != 0 &&
        config_.required(depth_key, config_.integer(depth_key)) != file.only_depth) {
      const std::string depth = std::to_string(file.only_depth);
      config_.reject(depth_key, "is not " + depth + ": of this type, only models of " + depth +
                                    " layers have a rotary encoding");
    }
    for (const auto& [key, neutral] :
         {std::pair("rope_is_neox_style", is_half), std::pair("rope_traditional", !is_half)}) {
      hf_require_neutral(config_, key, config_.flag(key), neutral);
    }
    const auto kinds = config_.integers("attn_type_list").value_or(std::vector<Index>{});
    if (std::any_of(kinds.begin(), kinds.end(), [](Index kind) { return kind != 1; })) {
      config_.reject("attn_type_list", "has layers that have no softmax");
    }
    if (type_.attention.heads == HfHeads::Latent && !config_.flag("use_mla").value_or(true)) {
      config_.reject("use_mla", "must be true in a model of this type");
    }
    if (type_.rope.mrope == HfMrope::Ernie) {
      hf_require_neutral(config_, "rope_3d", config_.flag("rope_3d"), true);
    }
    constexpr auto dual_chunk = "dual_chunk_attention_config";
    if (config_.find(dual_chunk) != nullptr) {
      config_.reject(
          dual_chunk,
          "makes vLLM count positions by chunks and has no effect in transformers; remove it "
          "for texts within one chunk");
    }
    hf_require_neutral(config_, "rope_position_scale", config_.real("rope_position_scale"), 1.0);
  }

  /// True if the key "rope", which some models have, switches the rotary encoding off.
  bool has_rope_off() const {
    const Json* rope = config_.find("rope");
    if (rope == nullptr) return false;
    if (!rope->is_boolean()) config_.reject("rope", "must be true or false");
    return !rope->flag();
  }

  void read_widths() {
    const auto longest = config_.any_of<Index>({"max_position_embeddings", "n_positions"});
    // Files that have several of these keys use them with different meanings.
    const auto other = config_.first_integer({"max_seq_len", "max_sequence_length", "seq_length"});
    max_position_ = longest.value_or(other.value_or(0));
    model_.trained_length = max_position_;
    original_ = config_.integer("original_max_position_embeddings");
    if (type_.layers.form != HfLayers::Step35) {  // Step 3.5 may have a list of bases
      top_base_ = config_.any_of<double>({"rope_theta", "rotary_emb_base"});
    }
    top_partial_ =
        config_.any_of<double>({"partial_rotary_factor", "rotary_pct", "rope_pct", "rope_percent",
                                "rope_percentage", "rotary_percent", "rotary_emb_fraction"});
    const HfTypeRope& rope = type_.rope;
    if (rope.dicts == HfDicts::OneForEachType && rope.bases.local_key == nullptr) {
      if (top_base_) config_.reject("rope_theta", "is read by no class of this type");
      if (top_partial_) config_.reject("partial_rotary_factor", "is read by no class of this type");
    }
    if (rope.is_base_fixed && top_base_.value_or(rope.base) != rope.base) {
      config_.reject("rope_theta", "must be " + std::to_string(static_cast<Index>(rope.base)) +
                                       " in a model of this type");
    }

    const Index default_width = type_.attention.head_dim;
    if (type_.attention.heads == HfHeads::Latent) return read_latent_widths();
    if (const auto given = config_.any_of<Index>({"head_dim", "kv_channels"})) {
      check_width("head_dim", *given);
      head_dim_ = *given;
    } else if (default_width != 0 && !config_.has("head_dim")) {
      // null in the file does not select the class's default; the width is then hidden_size /
      // heads.
      head_dim_ = default_width;
    } else {
      const Index hidden =
          config_.required("hidden_size", config_.any_of<Index>({"hidden_size", "n_embd"}));
      constexpr auto heads_key = "num_attention_heads";
      const Index heads = config_.required(heads_key, config_.any_of<Index>({heads_key, "n_head"}));
      if (hidden < 1 || heads < 1 || hidden / heads > max_head_dim) {
        fail<ConfigError>(JsonKeys::function, "hidden_size ", hidden, " and num_attention_heads ",
                          heads, " do not define the width of a head");
      }
      head_dim_ = hidden / heads;
    }
    hf_require_neutral(config_, "attention_head_dim", config_.integer("attention_head_dim"),
                       head_dim_);
    rotary_width_ = head_dim_;
    if (type_.attention.heads == HfHeads::LastChannels) read_width_of_last_channels();
  }

  /// Reads the width of the rotated last channels of a head.
  void read_width_of_last_channels() {
    constexpr auto key = "qk_rope_head_dim";
    const Index default_width = top_partial_ ? hf_width_of_share(head_dim_, *top_partial_) : 64;
    rotary_width_ = config_.integer(key).value_or(default_width);
    check_width(key, rotary_width_);
    if (rotary_width_ > head_dim_) config_.reject(key, "exceeds the width of a head");
    rotary_offset_ = head_dim_ - rotary_width_;
    top_partial_.reset();  // it is a share of the whole head
  }

  void read_latent_widths() {
    const Index plain = config_.required("qk_nope_head_dim", config_.integer("qk_nope_head_dim"));
    const Index turned = config_.required("qk_rope_head_dim", config_.integer("qk_rope_head_dim"));
    check_width("qk_nope_head_dim", plain);
    check_width("qk_rope_head_dim", turned);
    head_dim_ = plain + turned;
    rotary_offset_ = plain;
    rotary_width_ = turned;
    hf_require_neutral(config_, "qk_head_dim", config_.integer("qk_head_dim"), head_dim_);
    const auto head_dim = config_.integer("head_dim");
    const bool is_read = !lists_name(type_.file.ignored_keys, "head_dim");
    if (head_dim && is_read && *head_dim != turned && *head_dim != head_dim_) {
      config_.reject("head_dim", "contradicts qk_nope_head_dim and qk_rope_head_dim");
    }
    if (top_partial_ && *top_partial_ != 1) {
      config_.reject("partial_rotary_factor",
                     "must be 1, because qk_rope_head_dim sets the rotary channels");
    }
    constexpr auto key = "rope_interleave";
    const auto interleave = config_.flag(key);
    config_.find("indexer_rope_interleave");  // the indexer is not part of the settings
    if (type_.attention.interleave == HfInterleave::MustBeTrue) {
      // Releases of the class differ in the effect of false.
      if (interleave == false) config_.reject(key, "must be true in this model");
    } else if (type_.attention.interleave == HfInterleave::Unread) {
      if (interleave) config_.reject(key, "is read by no class of this type");
    } else if (!interleave.value_or(true) && !options_.pairing) {
      type_.rope.pairing = PairingKind::HalfRotate;
    }
  }

  void check_width(const char* key, Index width) const {
    if (width < 1 || width > max_head_dim) {
      config_.reject(key, "must lie between 1 and 65536");
    }
  }

  JsonKeys config_;
  HfConfigOptions options_;
  bool is_known_ = false;
  HfModelType type_;
  ModelSettings model_;
  Index max_position_ = 0, head_dim_ = 0, rotary_offset_ = 0, rotary_width_ = 0;
  std::optional<Index> original_;
  std::optional<double> top_base_, top_partial_;
};

}  // namespace detail
POSENC_END
#endif
