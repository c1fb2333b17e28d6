// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
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
