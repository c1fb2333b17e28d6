// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/layer_attention.hpp>

#include <string_view>

// The columns of the table of llama.cpp's architectures: gguf_architectures.hpp.
POSENC_BEGIN
namespace detail {

/// ggml's modes of rotation; a GGUF file does not tell which, its architecture implies it.
enum class GgufMode {
  Normal,         ///< Interleaved
  Neox,           ///< HalfRotate
  Mrope,          ///< HalfRotate, sections in chunks where the file has any
  Imrope,         ///< HalfRotate, sections in turn
  NormalOrMrope,  ///< Mrope where the file has sections
  NeoxOrMrope
};

/// Meanings of rope.scaling.yarn_log_multiplier.
enum class GgufLogMultiplier {
  Unknown,
  Whole,      ///< mscale_all_dim, of which the softmax scale knows nothing
  Tenth,      ///< mscale_all_dim / 10, which enters the softmax scale
  TenthOfOne  ///< the same, if it is 0.1
};

/// Ways in which layers turn that see a window alone.
enum class GgufLocal {
  AsGlobal,  ///< unless keys tell a base or a width of their own
  Unscaled,  ///< without the scaling of global layers
  Unsure     ///< by a base of their own; what scaling does to them is not known
};

/// Layers that have no rotary encoding, beside those that have no heads.
enum class GgufWithout {
  None,
  EveryFourth,
  GlobalLayers,      ///< those that see more than a window
  GlobalOf64,        ///< the same in models of 64 layers; others have no windows
  GlobalAfterDense,  ///< those that see more than a window, after leading_dense_block_count
  FirstOfFour,       ///< where there is a window
  LinearLayers,      ///< linear attention
  Listed             ///< by attention.rope_pattern, which says 0 of them; windows are listed, too
};

/// Meanings of attention.temperature_scale and _length.
enum class GgufTemperature {
  None,
  InCode,         ///< nothing but what the code has, in layers without rotary encoding
  BeyondTrained,  ///< the temperature begins at the trained length
  BeyondOwn,      ///< it begins at a length of its own
  LengthAlone     ///< a ratio of logarithms beyond the length
};

/// Traits that set an architecture's rotation apart.
struct GgufRope {
  bool is_base_fixed = false;   ///< its graph has the base 10000 and no scaling
  bool rotary_is_last = false;  ///< the rotary channels of a head
  GgufLogMultiplier log_multiplier = GgufLogMultiplier::Unknown;
  bool rounds_ramp =
      true;  ///< of YaRN; false: trained without, which GGUF cannot say and llama.cpp does
  bool attn_factor_may_be_final = false;  ///< where it is YaRN's own magnitude
  bool finetuned_turns = false;  ///< rope.scaling.finetuned switches the rotation on and off
  Index only_depth = 0;          ///< models of this number of layers alone turn; 0: all
  GgufLocal local = GgufLocal::AsGlobal;
  double local_base = 0;  ///< where the file does not tell; 0: the base of the global layers
  bool ignores_local_base = false;  ///< its graph takes the base of the global layers
  GgufWithout without = GgufWithout::None;
};

/// The keys that layers see.
struct GgufWindows {
  Index period =
      0;  ///< every period-th layer is global where the file does not tell; 0: no windows
  bool first_is_global = false;  ///< of each period, or else the last
  Index chunk = 0;               ///< layers see chunks of this length, whatever the file says
  Index usual = 0;               ///< size of the window, where the file does not tell
  bool may_lack = false;         ///< files without one have none
  bool both_sides = false;
};

/// Scale, cap and temperature of scores.
struct GgufScores {
  double scale = 0;  ///< 0: head_dim^-1/2
  double output_scale =
      0;  ///< attention.output_scale, where the file does not tell; 0: no such key
  Index largest_depth =
      0;               ///< models of this number of layers scale by embedding_length / head_count
  double softcap = 0;  ///< where the file does not tell; 0: no such key
  GgufTemperature temperature = GgufTemperature::None;
};

/// Row of an architecture.
struct GgufArchitecture {
  std::string_view names;  ///< of architectures that are alike in all of it
  GgufMode mode;
  GgufRope rope = {};
  GgufWindows windows = {};
  GgufScores scores = {};
  bool sinks = false;
  bool has_indexer = false;                   ///< which chooses the keys of layers with a softmax
  LayerKind without_heads = LayerKind::None;  ///< what layers are that have no heads
};

}  // namespace detail
POSENC_END
