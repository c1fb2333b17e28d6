// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/hf_rules.hpp>
#include <posenc/interop/detail/hf_unknown_type.hpp>
#include <posenc/interop/detail/hf_unsupported_types.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/detail/unknown_model.hpp>
#include <posenc/interop/hf_config_options.hpp>
#include <posenc/interop/model_settings.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Returns int(width * share), as all implementations compute it.
///   Throws: ConfigError if the share is not in (0, 1]
POSENC_COLD inline Index hf_width_of_share(Index width, double share) {
  if (!(share > 0 && share <= 1)) {
    fail<ConfigError>(JsonKeys::function, "partial_rotary_factor must lie in (0, 1] but is ",
                      share);
  }
  return static_cast<Index>(static_cast<double>(width) * share);
}

/// Read in progress of the configuration of one text model: the file, the row of its type, and what
/// has been read so far.
struct HfRead {
  JsonKeys config;
  HfConfigOptions options;
  bool is_known;     ///< the type has a row
  HfModelType type;  ///< row, with the pairing of the caller or of the file
  ModelSettings model = {};
  Index max_position = 0, head_dim = 0, rotary_offset = 0, rotary_width = 0;
  std::optional<Index> original = std::nullopt;  ///< trained length beside the rope dicts
  std::optional<double> top_base = std::nullopt,
                        top_partial = std::nullopt;  ///< base and share beside the rope dicts
  bool is_nested = false;                            ///< the file has a dict for each type of layer
};

[[noreturn]] POSENC_COLD inline void hf_reject_unsupported_type(const HfRead& read,
                                                                const UnsupportedModel& type) {
  constexpr auto key = "position_embedding_type";
  const Json* encoding = read.config.find(key);
  if (!type.has_rotary && encoding != nullptr &&
      (encoding->is_text("rotary") || encoding->is_text("rope"))) {
    read.config.reject(key, "selects a rotary encoding, which no class of this type has");
  }
  if (type.has_rotary) {
    fail<ConfigError>(JsonKeys::function, "the model_type '", read.model.model_type,
                      "' is not supported: it has ", type.has);
  }
  fail<ConfigError>(JsonKeys::function, "this '", read.model.model_type,
                    "' has no rotary encoding: it has ", type.has);
}

/// Rejects options that state what a known type defines.
POSENC_COLD inline void hf_reject_statements(const HfRead& read) {
  const char* option = read.options.rotary_share    ? "rotary_share"
                       : read.options.softmax_scale ? "softmax_scale"
                                                    : nullptr;
  check_no_statement(JsonKeys::function, option, "model_type", read.model.model_type);
}

/// Rejects an unknown type unless file and options state everything that a class would define.
POSENC_COLD inline void hf_require_statements(const HfRead& read) {
  const Json& config = read.config.object();
  RequiredStatements required;
  required.need("pairing", read.options.pairing.has_value());
  required.need("mrope_order", read.options.mrope_order || hf_states_axes(config));
  required.need("rotary_share", read.options.rotary_share || hf_states_share(config));
  required.need("softmax_scale", read.options.softmax_scale.has_value());
  for (const auto& [key, value] : config.members()) {
    if (!hf_is_understood(key, value) && !lists_name(read.options.ignored_keys, key)) {
      required.add_foreign_key(key);
    }
  }
  required.check(JsonKeys::function, "model_type", read.model.model_type);
}

/// Begins to read a configuration.
///   Throws: ConfigError for an unsupported type, and for an unknown one unless file and options
///           state everything that a class would define
POSENC_COLD inline HfRead hf_begin_read(const Json& config, const HfModelType* row,
                                        const std::string& model_type,
                                        const HfConfigOptions& options) {
  HfRead read{.config = JsonKeys(config, "the configuration"),
              .options = options,
              .is_known = row != nullptr,
              .type = row != nullptr ? *row : HfModelType{.names = {}, .rope = {.base = 0}}};
  read.model.model_type = model_type;
  if (const UnsupportedModel* refused = find_row(hf_unsupported_types, model_type)) {
    hf_reject_unsupported_type(read, *refused);
  }
  if (read.is_known) {
    hf_reject_statements(read);
  } else {
    hf_require_statements(read);
  }
  if (options.pairing) read.type.rope.pairing = options.pairing;
  return read;
}

/// True if the key "rope", which some models have, switches the rotary encoding off.
POSENC_COLD inline bool hf_has_rope_off(const JsonKeys& config) {
  const Json* rope = config.find("rope");
  if (rope == nullptr) return false;
  if (!rope->is_boolean()) config.reject("rope", "must be true or false");
  return !rope->flag();
}

/// Rejects a model without rotary encoding.
POSENC_COLD inline void hf_check_has_rotary(const HfRead& read) {
  constexpr auto encoding_key = "position_embedding_type", depth_key = "num_hidden_layers";
  const HfTypeFile& file = read.type.file;
  std::string encoding(file.encoding);
  if (!lists_name(file.ignored_keys, encoding_key)) {
    encoding = read.config.text(encoding_key).value_or(encoding);
  }
  const bool is_half = read.type.rope.pairing == PairingKind::HalfRotate;
  const bool is_interleaved_rope = encoding == "rope_gptj" && !is_half;
  const bool has_no_dict =
      file.needs_rope_parameters && read.config.find("rope_parameters") == nullptr;
  if (has_no_dict || read.config.flag("alibi").value_or(false) ||
      !read.config.flag("rotary").value_or(true) || hf_has_rope_off(read.config) ||
      (encoding != "rope" && encoding != "rotary" && !is_interleaved_rope)) {
    fail<ConfigError>(JsonKeys::function, "this '", read.model.model_type,
                      "' has no rotary encoding");
  }
  if (file.only_depth != 0 &&
      read.config.required(depth_key, read.config.integer(depth_key)) != file.only_depth) {
    read.config.reject(depth_key, "is not ", file.only_depth, ": of this type, only models of ",
                       file.only_depth, " layers have a rotary encoding");
  }
  for (const auto& [key, neutral] :
       {std::pair("rope_is_neox_style", is_half), std::pair("rope_traditional", !is_half)}) {
    hf_require_neutral(read.config, key, read.config.flag(key), neutral);
  }
  const auto kinds = read.config.integers("attn_type_list").value_or(std::vector<Index>{});
  if (std::any_of(kinds.begin(), kinds.end(), [](Index kind) { return kind != 1; })) {
    read.config.reject("attn_type_list", "has layers that have no softmax");
  }
  if (read.type.attention.heads == HfHeads::Latent && !read.config.flag("use_mla").value_or(true)) {
    read.config.reject("use_mla", "must be true in a model of this type");
  }
  if (read.type.rope.mrope == HfMrope::Ernie) {
    hf_require_neutral(read.config, "rope_3d", read.config.flag("rope_3d"), true);
  }
  constexpr auto dual_chunk = "dual_chunk_attention_config";
  if (read.config.find(dual_chunk) != nullptr) {
    read.config.reject(
        dual_chunk,
        "makes vLLM count positions by chunks and has no effect in transformers; remove it "
        "for texts within one chunk");
  }
  hf_require_neutral(read.config, "rope_position_scale", read.config.real("rope_position_scale"),
                     1.0);
}

POSENC_COLD inline void hf_check_width(const JsonKeys& config, const char* key, Index width) {
  if (width < 1 || width > max_head_dim) {
    config.reject(key, "must lie between 1 and 65536");
  }
}

/// Reads the width of the rotated last channels of a head.
POSENC_COLD inline void hf_read_width_of_last_channels(HfRead& read) {
  constexpr auto key = "qk_rope_head_dim";
  const Index default_width =
      read.top_partial ? hf_width_of_share(read.head_dim, *read.top_partial) : 64;
  read.rotary_width = read.config.integer(key).value_or(default_width);
  hf_check_width(read.config, key, read.rotary_width);
  if (read.rotary_width > read.head_dim) read.config.reject(key, "exceeds the width of a head");
  read.rotary_offset = read.head_dim - read.rotary_width;
  read.top_partial.reset();  // it is a share of the whole head
}

POSENC_COLD inline void hf_read_latent_widths(HfRead& read) {
  const Index plain =
      read.config.required("qk_nope_head_dim", read.config.integer("qk_nope_head_dim"));
  const Index rotated =
      read.config.required("qk_rope_head_dim", read.config.integer("qk_rope_head_dim"));
  hf_check_width(read.config, "qk_nope_head_dim", plain);
  hf_check_width(read.config, "qk_rope_head_dim", rotated);
  read.head_dim = plain + rotated;
  read.rotary_offset = plain;
  read.rotary_width = rotated;
  hf_require_neutral(read.config, "qk_head_dim", read.config.integer("qk_head_dim"), read.head_dim);
  const auto head_dim = read.config.integer("head_dim");
  const bool is_read = !lists_name(read.type.file.ignored_keys, "head_dim");
  if (head_dim && is_read && *head_dim != rotated && *head_dim != read.head_dim) {
    read.config.reject("head_dim", "contradicts qk_nope_head_dim and qk_rope_head_dim");
  }
  if (read.top_partial && *read.top_partial != 1) {
    read.config.reject("partial_rotary_factor",
                       "must be 1, because qk_rope_head_dim sets the rotary channels");
  }
  constexpr auto key = "rope_interleave";
  const auto interleave = read.config.flag(key);
  read.config.find("indexer_rope_interleave");  // the indexer is not part of the settings
  if (read.type.attention.interleave == HfInterleave::MustBeTrue) {
    // Releases of the class differ in the effect of false.
    if (interleave == false) read.config.reject(key, "must be true in this model");
  } else if (read.type.attention.interleave == HfInterleave::Unread) {
    if (interleave) read.config.reject(key, "is read by no class of this type");
  } else if (!interleave.value_or(true) && !read.options.pairing) {
    read.type.rope.pairing = PairingKind::HalfRotate;
  }
}

/// Reads lengths, base and rotated channels, as far as the file has them beside its rope dicts.
POSENC_COLD inline void hf_read_widths(HfRead& read) {
  const auto longest = read.config.any_of<Index>({"max_position_embeddings", "n_positions"});
  // Files that have several of these keys use them with different meanings.
  const auto other =
      read.config.first_integer({"max_seq_len", "max_sequence_length", "seq_length"});
  read.max_position = longest.value_or(other.value_or(0));
  read.model.trained_length = read.max_position;
  read.original = read.config.integer("original_max_position_embeddings");
  if (read.type.layers.form != HfLayers::Step35) {  // Step 3.5 may have a list of bases
    read.top_base = read.config.any_of<double>({"rope_theta", "rotary_emb_base"});
  }
  read.top_partial =
      read.config.any_of<double>({"partial_rotary_factor", "rotary_pct", "rope_pct", "rope_percent",
                                  "rope_percentage", "rotary_percent", "rotary_emb_fraction"});
  const HfTypeRope& rope = read.type.rope;
  if (rope.dicts == HfDicts::OneForEachType && rope.bases.local_key == nullptr) {
    if (read.top_base) read.config.reject("rope_theta", "is read by no class of this type");
    if (read.top_partial)
      read.config.reject("partial_rotary_factor", "is read by no class of this type");
  }
  if (rope.is_base_fixed && read.top_base.value_or(rope.base) != rope.base) {
    read.config.reject("rope_theta", "must be ", static_cast<Index>(rope.base),
                       " in a model of this type");
  }

  const Index default_width = read.type.attention.head_dim;
  if (read.type.attention.heads == HfHeads::Latent) return hf_read_latent_widths(read);
  if (const auto given = read.config.any_of<Index>({"head_dim", "kv_channels"})) {
    hf_check_width(read.config, "head_dim", *given);
    read.head_dim = *given;
  } else if (default_width != 0 && !read.config.has("head_dim")) {
    // null in the file does not select the class's default; the width is then hidden_size /
    // heads.
    read.head_dim = default_width;
  } else {
    const Index hidden =
        read.config.required("hidden_size", read.config.any_of<Index>({"hidden_size", "n_embd"}));
    constexpr auto heads_key = "num_attention_heads";
    const Index heads =
        read.config.required(heads_key, read.config.any_of<Index>({heads_key, "n_head"}));
    if (hidden < 1 || heads < 1 || hidden / heads > max_head_dim) {
      fail<ConfigError>(JsonKeys::function, "hidden_size ", hidden, " and num_attention_heads ",
                        heads, " do not define the width of a head");
    }
    read.head_dim = hidden / heads;
  }
  hf_require_neutral(read.config, "attention_head_dim", read.config.integer("attention_head_dim"),
                     read.head_dim);
  read.rotary_width = read.head_dim;
  if (read.type.attention.heads == HfHeads::LastChannels) hf_read_width_of_last_channels(read);
}

}  // namespace detail
POSENC_END
