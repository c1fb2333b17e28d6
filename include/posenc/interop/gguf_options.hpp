// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/rotary/pairing.hpp>

#include <optional>
#include <type_traits>

POSENC_STABLE_BEGIN

/// Meanings of rope.scaling.attn_factor in a GGUF file with YaRN. llama.cpp multiplies YaRN's own
/// magnitude by it. Some converters wrote the final factor instead.
enum class GgufAttentionFactor {
  Unspecified,  ///< Relative, but an error if the value is YaRN's own magnitude
  Relative,     ///< a factor of YaRN's own magnitude, as llama.cpp reads it
  Final         ///< the factor of cos and sin, YaRN's own magnitude included
};

/// Settings of read_gguf.
struct GgufOptions {
  /// Pairing of the channels. Required if the architecture is unknown; otherwise it overrides the
  /// pairing that the architecture implies.
  std::optional<PairingKind> pairing = std::nullopt;
  /// Meaning of YaRN's attn_factor.
  GgufAttentionFactor attn_factor = GgufAttentionFactor::Unspecified;
  /// Order of the axes of rope.dimension_sections. Required for an unknown architecture whose file
  /// has sections; an error for known ones.
  std::optional<MropeOrder> mrope_order = std::nullopt;
  /// Share of a head that is rotated, 1 for all channels. Required for an unknown architecture
  /// whose file has no rope.dimension_count; an error for known ones.
  std::optional<double> rotary_share = std::nullopt;
  /// Scale of scores, usually head_dim^-1/2. Required for an unknown architecture whose file has no
  /// attention.scale; an error for known ones.
  std::optional<double> softmax_scale = std::nullopt;
  /// Names, separated by spaces and without the architecture, of keys that change neither positions
  /// nor scores. For an unknown architecture all keys that the reader does not understand must be
  /// named.
  std::string_view ignored_keys = {};
};

static_assert(std::is_trivially_copyable_v<GgufOptions>);

POSENC_STABLE_END
