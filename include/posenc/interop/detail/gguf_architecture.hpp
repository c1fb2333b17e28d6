// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/qk_norms.hpp>
#include <posenc/interop/layer_attention.hpp>

#include <optional>
#include <string_view>

// Columns of the table of llama.cpp's architectures, gguf_architectures.hpp.
POSENC_BEGIN
namespace detail {

/// ggml's modes of rotation. The architecture implies the mode; GGUF files do not contain it.
enum class GgufMode {
  Normal,         ///< Interleaved
  Neox,           ///< HalfRotate
  Mrope,          ///< HalfRotate; chunked sections if the file has any
  Imrope,         ///< HalfRotate; interleaved sections
  NormalOrMrope,  ///< Mrope if the file has sections
  NeoxOrMrope
};

/// Meanings of rope.scaling.yarn_log_multiplier.
enum class GgufLogMultiplier {
  Unknown,
  Whole,       ///< mscale_all_dim, not applied to the softmax scale
  Tenth,       ///< mscale_all_dim / 10, applied to the softmax scale
  TenthOfOne,  ///< like Tenth, if it is 0.1
  Unread       ///< none, and any scaling multiplies scores
};

/// Rotations of layers with a window.
enum class GgufLocal {
  AsGlobal,  ///< as global layers, with their scaling; keys may give another base or width
  Unscaled,  ///< without the scaling of global layers, with their attn_factor
  Plain      ///< with neither
};

/// Layers without rotary encoding, in addition to layers without heads.
enum class GgufNopeLayers {
  None,
  EveryFourth,
  GlobalLayers,      ///< layers without a window
  GlobalOf64,        ///< like GlobalLayers, in models of 64 layers; others have no windows
  GlobalAfterDense,  ///< layers without a window, after leading_dense_block_count
  FirstOfFour,       ///< if there is a window
  LinearLayers,      ///< layers with linear attention
  Listed             ///< layers with 0 in attention.rope_pattern; windows are listed, too
};

/// Meanings of attention.temperature_scale and _length.
enum class GgufTemperature {
  None,
  InCode,         ///< fixed values in llama.cpp's code, in layers without rotary encoding
  BeyondTrained,  ///< the temperature begins at the trained length
  BeyondOwn,      ///< the temperature begins at temperature_length
  LengthAlone     ///< ratio of logarithms beyond the length
};

/// Layers with a softmax whose keys an indexer chooses.
enum class GgufIndexer {
  None,
  AllLayers,
  AfterDense,    ///< those after leading_dense_block_count
  GlobalLayers,  ///< those without a window
  ByRatio        ///< those whose attention.compress_ratios is positive
};

/// Layers with sinks.
enum class GgufSinks {
  None,
  AllLayers,
  ByWeights  ///< those with a tensor of sinks, which is not read
};

/// Rotation.
struct GgufRope {
  /// The graph rotates complete heads with the base 10000, whatever the file says.
  bool is_plain = false;
  bool ignores_tensors = false;  ///< the graph reads no tensors of divisors
  bool needs_tensor = false;     ///< the loader requires rope_freqs.weight
  bool rotary_is_last = false;   ///< rotary channels are the last ones of a head
  GgufLogMultiplier log_multiplier = GgufLogMultiplier::Unknown;
  double beta_fast = 32;  ///< default of YaRN's beta_fast
  Index global_part = 1;  ///< global layers rotate 1 / global_part of the channels of local ones
  /// YaRN's ramp has rounded ends, as llama.cpp implements it. False for models trained with
  /// unrounded ones, which GGUF cannot express.
  bool rounds_ramp = true;
  /// attn_factor may be the final factor if it equals YaRN's own magnitude.
  bool attn_factor_may_be_final = false;
  /// rope.scaling.finetuned switches the rotation on and off.
  bool finetuned_switches_rotary = false;
  Index only_depth = 0;  ///< number of layers of the only models with rotary encoding; 0: all
  GgufLocal local = GgufLocal::AsGlobal;
  double local_base = 0;            ///< default; 0: the base of the global layers
  bool ignores_local_base = false;  ///< the graph uses the base of the global layers
  bool has_local_width = false;     ///< the graph reads rope.dimension_count_swa layer by layer
  GgufNopeLayers nope_layers = GgufNopeLayers::None;
  Index linear_period = 4;  ///< one layer of each period has a softmax, for LinearLayers
};

/// Windows of layers.
struct GgufWindows {
  /// Default; one layer of each period is global. 0: no windows.
  Index period = 0;
  bool first_is_global = false;  ///< the first layer of each period, otherwise the last
  Index chunk = 0;               ///< chunk length of local layers, even if the file says otherwise
  Index default_size = 0;        ///< default size of the window
  bool may_be_absent = false;    ///< files without a window size have no windows
  bool both_sides = false;
};

/// Scale, cap and temperature of scores.
struct GgufScores {
  double scale = 0;          ///< 0: head_dim^-1/2
  bool reads_scale = false;  ///< attention.scale replaces it
  /// Default of attention.output_scale; 0: no such key.
  double output_scale = 0;
  /// Models with this number of layers use (embedding_length / head_count)^-1/2.
  Index depth_of_largest = 0;
  double softcap = 0;  ///< default; 0: no such key
  GgufTemperature temperature = GgufTemperature::None;
};

/// Norm of queries and keys. llama.cpp's converter has added 1 to the weights that need it.
///   Source: llama.cpp of llama-cpp-python 0.3.36: src/models/, and conversion/ for the 1
struct GgufQkNorm {
  std::optional<LayerQkNorm> norm = no_qk_norm;  ///< nullopt: LayerQkNorm does not describe it
  QkNormLayers layers = QkNormLayers::All;
  bool is_optional = false;   ///< the norm is on if the file has its tensor
  Index experts_without = 0;  ///< models of so many experts have none; 0: no such models
};

/// Row of an architecture.
struct GgufArchitecture {
  std::string_view names;  ///< architectures that share the row
  GgufMode mode;
  GgufRope rope = {};
  GgufWindows windows = {};
  GgufScores scores = {};
  GgufQkNorm qk_norm = {};
  GgufSinks sinks = GgufSinks::None;
  GgufIndexer indexer = GgufIndexer::None;
  LayerKind without_heads = LayerKind::None;  ///< kind of layers without heads
  /// Layers whose attention.compress_ratios is positive also attend to compressed keys, and have a
  /// base and scaling that other layers have not. Outputs are rotated back: DeepSeek-V4.
  bool compresses_keys = false;
};

}  // namespace detail
POSENC_END
