// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/json.hpp>
#include <posenc/interop/detail/qk_norms.hpp>
#include <posenc/rotary/pairing.hpp>

#include <optional>
#include <string_view>

// Columns of the tables of Hugging Face's model types: hf_plain_types.hpp, hf_window_types.hpp,
// hf_layered_types.hpp and hf_custom_types.hpp.
//
// The source of a row is the type's class in huggingface/transformers 5.24.0, its configuration and
// its code. tests/oracles/transformers compares the types that run there. A comment at a row, or at
// a function that it names, has its other sources, with commits. Types that status.tsv there marks
// as read from code, and without a comment, follow their published files and code.
POSENC_BEGIN
namespace detail {

class JsonKeys;

inline constexpr auto full_attention = "full_attention";
inline constexpr auto sliding_attention = "sliding_attention";
inline constexpr auto compressed_attention = "compressed";
inline constexpr auto unscaled_attention = "unscaled_attention";
inline constexpr auto linear_attention = "linear_attention";
inline constexpr auto no_attention = "no_attention";

/// Layers to which the rope dicts of a file apply.
enum class HfDicts {
  AnyTypes,  ///< one dict for all layers, or one for each type that the file names
  One,       ///< one dict for all layers
  /// One dict each for full_attention and sliding_attention; a single dict scales full_attention
  /// alone.
  ScalesGlobal,
  /// Like ScalesGlobal, but classes of the model differ in which layers a single dict scales, so
  /// that one with scaling is rejected.
  NeverScales,
  OneForEachType  ///< one dict each for full_attention and sliding_attention
};

/// Orders in which the axes of the positions rotate pairs.
enum class HfMrope {
  None,
  Chunked,      ///< chunks of the sizes in mrope_section
  Interleaved,  ///< axes alternate as often as mrope_section says
  TimeLast      ///< mrope_section is [h, w, t]: h and w alternate, then t
};

/// Rotated channels of a head, and the ids that rotate them.
enum class HfRotationForm {
  Usual,
  HalfHeads,  ///< both halves of a head by two ids, or its first half by one id
  PatchGrid   ///< half of the pairs by rows of patches, half by columns
};

/// Keys of bases that differ between layers.
struct HfBases {
  const char* local_key = nullptr;   ///< key of local layers; nullptr: all layers share the base
  double local_base = 0;             ///< default
  const char* global_key = nullptr;  ///< key that replaces rope_theta
};

/// Rotation: base, rotary share, axes, and rope dicts.
struct HfTypeRope {
  std::optional<PairingKind> pairing = std::nullopt;  ///< required; that of the checkpoint's
                                                      ///< channels
  double base = 10000;                                ///< default; 0 if the file must give it
  bool is_base_fixed = false;                         ///< the class reads no key for it
  HfBases bases = {};
  double share = 1;          ///< default share of a head that is rotated (partial_rotary_factor)
  bool needs_width = false;  ///< the file must give rotary_dim or a share
  Index trained_length = 0;  ///< default trained length of the rule; 0 if the file must give it
  HfDicts dicts = HfDicts::AnyTypes;
  HfRotationForm form = HfRotationForm::Usual;
  HfMrope mrope = HfMrope::None;
  std::string_view default_dict = {};  ///< default as JSON
  /// A type and a base in the same dict as dicts per layer type have no effect: the class removes
  /// them.
  bool has_stray_keys = false;
  bool must_have_dict = false;     ///< the class scales by default
  bool null_is_no_rotary = false;  ///< layers whose dict is null have no rotary encoding
  /// Releases of the class differ in the meaning of null instead of a dict.
  bool is_null_ambiguous = false;
  /// Releases differ in the meaning of another base without a dict.
  bool is_other_base_ambiguous = false;
  /// Releases differ in whether mscale_all_dim scales scores.
  bool is_mscale_ambiguous = false;
  bool yarn_is_longrope = false;  ///< old files write "yarn" for longrope
  bool has_mscale = true;         ///< latent heads: mscale_all_dim scales scores
  /// A dict's partial_rotary_factor repeats qk_rope_head_dim as a share of the whole head.
  bool is_share_of_whole_head = false;
};

/// Ways in which files distinguish layers.
enum class HfLayers {
  /// An optional list of types; if a row has a period, it applies to files without a list.
  Listed,
  PeriodOrLetters,   ///< a period, or a string of L (local) and G beside the list of types
  PeriodAfterDense,  ///< a period that starts at the first layer of experts
  Ratios,            ///< for each layer, the number of tokens that a compressed key stands for
  LocalMarks,        ///< a list of 1 (local) and 0
  ListedRotations,   ///< lists of types, bases and rotary shares
  ListedBases,       ///< lists of types and bases
  Mixers,            ///< a required list of state-space and attention layers
  AttentionIndex,    ///< a list of the layers that are not state spaces
  Convolutions,      ///< a list of the layers that are not convolutions
  CrossIndex,        ///< a list of the layers that attend to images
  Blocks,            ///< a description of each layer
  NoRopeIndex        ///< a list or an interval of the layers without rotary encoding
};

/// Layers of two types: in every period one layer is of `rare_type`, the others are of
/// `usual_type`.
struct HfTypeLayers {
  HfLayers form = HfLayers::Listed;
  Index period = 0;                  ///< default; 0: none
  const char* period_key = nullptr;  ///< nullptr if the class has none
  bool rare_is_first = false;  ///< `rare_type` is the first layer of its period, otherwise the last
  /// The model's last layer is of `rare_type` even if the file says otherwise.
  bool last_is_rare = false;
  const char* rare_type = full_attention;
  const char* usual_type = sliding_attention;
  /// Keys that no class reads; they must agree with the period.
  std::string_view unread_period_keys = {};
  /// Types with other names in lists and rope dicts, as alias=canonical. Names differ between
  /// releases of transformers, whose remap_legacy_layer_types() converts them.
  std::string_view type_aliases = {};
  /// Type of all layers if dicts name types and the file has no list.
  std::string_view default_type = {};
  std::string_view type_without_rotary = {};  ///< type of the layers without rotary encoding
  bool lists_may_be_longer = false;  ///< lists continue for layers that predict further tokens
};

/// Ways in which files give widths and numbers of heads.
enum class HfHeads {
  Usual,
  /// Latent attention: widths of rotary and other channels, rotary ones last; as many KV heads as
  /// query heads.
  Latent,
  LastChannels,  ///< the last channels are rotated; their width has a key
  /// Keys with the prefix swa_ give the heads of local layers; values have their own width.
  LocalByKeys,
  LocalBySetting,  ///< attention_other_setting gives the heads of local layers
  WideGlobal       ///< global_head_dim gives the width in global layers
};

/// Meanings of rope_interleave in files of models with latent heads.
enum class HfInterleave { PicksPairing, MustBeTrue, Unread };

/// Flags that give the number of KV heads indirectly.
enum class HfMultiQuery {
  None,
  Flag,          ///< multi_query_attention: 1
  GroupNumber,   ///< multi_query_attention: multi_query_group_num
  FlagOrGroups,  ///< multi_query, on by default: 1; with new_decoder_architecture: num_kv_heads
  Groups         ///< num_kv_heads, even if the file lacks new_decoder_architecture
};

/// Layers of a class that have a window.
enum class HfWindowPattern {
  None,  ///< none; the class reads no key of windows
  Unknown,
  Every,       ///< all, if the file gives a window
  ByType,      ///< those of the type sliding_attention
  Alternate,   ///< those of the type sliding_attention, by default those with an even number
  AfterFirst,  ///< by default all from max_window_layers on
  AfterFirstSwitched,  ///< like AfterFirst, if use_sliding_window is true
  /// Those of the type sliding_attention, if use_sliding_window is true. Releases of the class
  /// differ in which layers these are by default, so that the file must list them.
  ListedSwitched,
  EverySwitched,  ///< all, if use_sliding_window is true
  /// By default those without rotary encoding, if use_sliding_window is true.
  WithoutRotary,
  ChunksWithRotary,  ///< chunks, in layers with rotary encoding
  /// Layers of the type sliding_attention; half of local_attention on either side.
  BothSides,
  Radius,  ///< layers of the type sliding_attention; sliding_window keys on either side
  /// Layers of the type sliding_attention; half of local_attention is the window.
  HalfOfLocal
};

/// Values of use_bidirectional_attention that extend windows to later keys as far as to earlier
/// ones.
enum class HfBidirectional { Never, IfTrueOrAll, IfAll };

constexpr Index kv_heads_equal_heads = 0;
constexpr Index unknown_kv_heads = -1;

/// Heads and windows.
struct HfTypeAttention {
  HfHeads heads = HfHeads::Usual;
  HfInterleave interleave = HfInterleave::PicksPairing;
  Index head_dim = 0;                 ///< default; 0: hidden_size / num_attention_heads
  Index kv_heads = unknown_kv_heads;  ///< default; may be kv_heads_equal_heads or unknown_kv_heads
  HfMultiQuery multi_query = HfMultiQuery::None;
  HfWindowPattern windows = HfWindowPattern::None;
  Index window = 0;           ///< default size; 0: no window
  Index first_windowed = 28;  ///< default of max_window_layers
  HfBidirectional bidirectional = HfBidirectional::Never;
  bool sinks = false;
  /// Type of the layers whose keys an indexer chooses. Its own rotation is in no setting: by halves
  /// in DeepSeek-V3.2 and Qwen4-Exp, by indexer_rope_interleave in GLM-5.
  std::string_view sparse = {};
  bool output_inverse_rotated = false;  ///< see LayerAttention::output_inverse_rotated
};

/// Scales of scores.
enum class HfScale {
  HeadDim,            ///< head_dim^-1/2
  One,                ///< 1; queries and keys are normalized
  QueryScalar,        ///< query_pre_attn_scalar^-1/2, by default 1/16
  Multiplier,         ///< attention_multiplier, by default 1
  MultiplierIfGiven,  ///< attention_multiplier, by default head_dim^-1/2
  MupHeadDim,         ///< mup_attn_multiplier / head_dim
  KeyMultiplier,      ///< key_multiplier, a factor of all keys, times head_dim^-1/2
  /// (hidden_size / q_lora_rank)^1/2, a factor of all queries, times head_dim^-1/2.
  QueryLatent,
  HalfOfHeadDim,            ///< (head_dim / 2)^-1/2
  OutputMultiplierIfGiven,  ///< attn_output_multiplier, by default head_dim^-1/2
  QueryScalarIfGiven        ///< query_pre_attn_scalar^-1/2, by default head_dim^-1/2
};

/// Keys of the temperature of queries.
enum class HfTemperature {
  None,
  FloorScale,  ///< floor_scale, in layers without rotary encoding
  LogN,        ///< use_logn_attn
  Length,      ///< attn_temperature_len
  ScalingBeta  ///< llama_4_scaling_beta of the rope dict
};

/// Scale, cap and temperature of scores.
struct HfTypeScores {
  HfScale scale = HfScale::HeadDim;
  /// Default of attn_logit_softcapping; 0: no cap; nullopt: the class has no such key.
  std::optional<double> softcap = std::nullopt;
  HfTemperature temperature = HfTemperature::None;
};

/// Norms.
///   Source: epsilon: transformers 5.24.0, configuration_*.py of each type, and of the type of the
///           text model for composite files; modeling_*.py of dbrx, esmc and olmo, whose norms have
///           the default of PyTorch. Names of remote code that transformers has under another name:
///           AXK1 as axk1, exaone4_5_text as exaone4, kimi_k2 as deepseek_v3, new as gte,
///           RefinedWeb as falcon.
///           qk: transformers 5.24.0, modeling_*.py of each type. Types without a class there:
///           mlx-lm 0.32.2, mlx_lm/models/ (bailing_moe, deepseek, hunyuan, internlm2, Klear,
///           longcat_flash_ngram, mimo, minicpm, nemotron-nas, openelm, phi3small, plamo, qwen,
///           telechat3, youtu_llm); SGLang 0.5.23, srt/models/ (baichuan, chatglm, grok, orion,
///           solar, xverse); llama.cpp of llama-cpp-python 0.3.36, src/models/ (arctic,
///           bailingmoe2, codeshell, deci, dream, grovemoe, neo-bert, pangu-embed, phi2, plm,
///           rnd1, smallthinker). aquila, internlm, megrez_moe, RefinedWeb, telechat, Yi and the
///           like have the attention of a class above. attention_layer_norm is false by default in
///           the configurations of allenai/OLMo, molmo and LLaDA; normalize_qk_projections in that
///           of apple/corenet
struct HfTypeNorms {
  double epsilon = 0;  ///< default of all norms; 0: the class was not found, or has none
  std::optional<LayerQkNorm> qk = no_qk_norm;  ///< of queries and keys; nullopt: not known
  QkNormLayers qk_layers = QkNormLayers::All;
  const char* qk_flag = nullptr;  ///< key of the flag that switches it; nullptr: always on
  std::optional<bool> qk_is_on = std::nullopt;  ///< without the flag; nullopt: not known
  /// Key whose value "olmo" makes the norm one of the whole projection; "qwen3" does not.
  const char* qk_kind_key = nullptr;
};

/// Default sizes of the text model's part of a file, because parts are saved without default
/// values. A complete file has all sizes; one without them is incomplete and gets none.
struct HfDefaultSizes {
  Index hidden_size = 0, heads = 0, layers = 0, length = 0;
};

/// Form of the file, and whether the model has a rotary encoding at all.
struct HfTypeFile {
  /// Keys with other names, as alias=canonical. Either may be part.key. A part with the alias of a
  /// key outside of it has no other key that matters.
  std::string_view key_aliases = {};
  std::string_view default_keys = {};  ///< values of keys that the file may omit, as JSON
  /// Converts what needs more than other names: convert(keys of the file, configuration that is
  /// read instead).
  void (*convert)(const JsonKeys& keys, Json& config) = nullptr;
  /// Keys that may stay unread, because they have no effect in this type.
  std::string_view ignored_keys = {};
  std::string_view encoding = "rope";  ///< default of position_embedding_type
  bool needs_rope_parameters = false;  ///< without rope_parameters there is no rotary encoding
  Index only_depth = 0;       ///< number of layers of the only models with rotary encoding; 0: all
  HfDefaultSizes sizes = {};  ///< only for classes whose sizes were the same in all releases
};

/// Row of a model_type of Hugging Face: the pairing of the checkpoint's channels, the traits of the
/// model, and the defaults of its configuration class for keys that config.json omits.
struct HfModelType {
  std::string_view names;  ///< model types that share the row
  HfTypeRope rope = {};
  HfTypeLayers layers = {};
  HfTypeAttention attention = {};
  HfTypeScores scores = {};
  HfTypeNorms norms = {};
  HfTypeFile file = {};
};

}  // namespace detail
POSENC_END
