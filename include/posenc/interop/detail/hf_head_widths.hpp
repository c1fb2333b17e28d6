// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/hf_keys.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>
#include <posenc/interop/detail/hf_read.hpp>
#include <posenc/interop/detail/hf_rules.hpp>
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/detail/names.hpp>

// Lengths, and widths of a head and of its rotated part, as far as they stand beside rope dicts.
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

POSENC_COLD inline void hf_check_width(const JsonKeys& config, const char* key, Index width) {
  if (width < 1 || width > max_head_dim) {
    config.reject(key, "must lie between 1 and 65536");
  }
}

/// Reads the width of the rotated last channels of a head.
POSENC_COLD inline void hf_read_width_of_last_channels(HfRead& read) {
  constexpr auto key = "qk_rope_head_dim";
  const Index default_width =
      read.outer_share ? hf_width_of_share(read.head_dim, *read.outer_share) : 64;
  read.rotary_width = read.config.integer(key).value_or(default_width);
  hf_check_width(read.config, key, read.rotary_width);
  if (read.rotary_width > read.head_dim) read.config.reject(key, "exceeds the width of a head");
  read.rotary_offset = read.head_dim - read.rotary_width;
  read.outer_share.reset();  // it is a share of the whole head
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
  if (read.outer_share && *read.outer_share != 1) {
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

/// Reads lengths, the rotary share and widths, as far as the file has them beside its rope dicts.
POSENC_COLD inline void hf_read_widths(HfRead& read) {
  const auto longest = read.config.any_of<Index>({"max_position_embeddings", "n_positions"});
  // Files that have several of these keys use them with different meanings.
  const auto other =
      read.config.first_integer({"max_seq_len", "max_sequence_length", "seq_length"});
  read.max_position = longest.value_or(other.value_or(0));
  read.model.trained_length = read.max_position;
  read.original = read.config.integer(hf_original_length_key);
  read.outer_share = read.config.any_of<double>(hf_share_names);
  const HfTypeRope& rope = read.type.rope;
  if (rope.dicts == HfDicts::OneForEachType && rope.bases.local_key == nullptr &&
      read.outer_share) {
    read.config.reject("partial_rotary_factor", "is read by no class of this type");
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
