// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/rotary/pairing.hpp>

#include <nlohmann/json.hpp>

#include <optional>
#include <string_view>

// The columns of the tables of Hugging Face's types of models: hf_plain_types.hpp, hf_layered_types.hpp.
POSENC_BEGIN
namespace detail {

class JsonKeys;

inline constexpr auto full_attention = "full_attention";
inline constexpr auto sliding_attention = "sliding_attention";
inline constexpr auto compressed_attention = "compressed";
inline constexpr auto unscaled_attention = "unscaled_attention";
inline constexpr auto linear_attention = "linear_attention";
inline constexpr auto no_attention = "no_attention";

/// Layers that the rope dicts of a file are for.
enum class HfDicts {
  AnyTypes,  ///< one is for all, or there is one for each type that the file names
  One,       ///< one is for all
  ScalesGlobal,  ///< one for full_attention and one for sliding_attention; a single one scales the former
  NeverScales,    ///< the same, but classes of the model differ in what a single one scales
  OneForEachType  ///< one for full_attention and one for sliding_attention
};

/// Orders in which the axes of the positions turn pairs.
enum class HfMrope {
  None,
  Chunked,      ///< mrope_section in chunks
  Interleaved,  ///< mrope_section in turn
  Ernie         ///< mrope_section is h, w, t
};

/// Channels of a head that turn, and the ids that turn them.
enum class HfTurn {
  Usual,
  ChatGlm,   ///< both halves by two ids, or half of the head by one
  PatchGrid  ///< half of the pairs by rows of patches, half by columns
};

/// Keys that tell the bases of layers apart.
struct HfBases {
  const char* local_key = nullptr;   ///< of local layers; nullptr: all layers share the base
  double local_base = 0;             ///< where the file does not tell
  const char* global_key = nullptr;  ///< in place of rope_theta
};

/// Rotation: base, share, axes, and the rope dicts.
struct HfTypeRope {
  std::optional<PairingKind> pairing = std::nullopt;  ///< required; the checkpoint's channels
  double base = 10000;                                ///< 0 where the file must tell it
  bool is_base_fixed = false;                         ///< the class reads no key of it
  HfBases bases = {};
  double share = 1;          ///< of a head that turns (partial_rotary_factor)
  bool needs_width = false;  ///< the file must tell rotary_dim or a share
  Index trained_length = 0;  ///< of the rule, where the file does not tell; 0 where it must
  HfDicts dicts = HfDicts::AnyTypes;
  HfTurn turn = HfTurn::Usual;
  HfMrope mrope = HfMrope::None;
  std::string_view usual_dict = {};   ///< JSON, where the file has none
  bool must_have_dict = false;        ///< the class scales by default
  bool is_null_unsure = false;        ///< releases differ in what null in place of a dict means
  bool is_other_base_unsure = false;  ///< and in what another base means where there is no dict
  bool is_magnitude_unsure = false;   ///< and in whether mscale_all_dim scales scores
  bool yarn_is_longrope = false;      ///< in old files
  bool has_mscale = true;             ///< of latent heads: mscale_all_dim scales scores
  bool is_share_of_whole_head =
      false;  ///< of latent heads: a share tells qk_rope_head_dim once more
};

/// Ways in which files tell layers apart.
enum class HfLayers {
  Listed,          ///< by a list of types, if at all; with a period, by that where there is no list
  Exaone4,         ///< by a period, or by letters
  Cohere2Moe,      ///< by a period that begins with the first layer of experts
  DeepSeekV4,      ///< by how many tokens a key stands for
  MimoV2,          ///< by a list of 1 and 0
  Step35,          ///< by lists of types, bases and shares
  GraniteSwa,      ///< by lists of types and bases
  Mixers,          ///< by a list that must tell state spaces and attention apart
  AttentionIndex,  ///< by a list of those that are no state spaces
  Convolutions,    ///< by a list of those that are no convolutions
  CrossIndex,      ///< by a list of those that attend to pictures
  Blocks,          ///< by a description of each
  NoRopeIndex      ///< by a list or an interval of those that turn nothing
};

/// Layers of two types, every period-th of the one that is `rare`.
struct HfTypeLayers {
  HfLayers form = HfLayers::Listed;
  Index period = 0;                  ///< where the file does not tell; 0: there is none
  const char* period_key = nullptr;  ///< nullptr where the class has none
  bool rare_is_first = false;        ///< of its period, or else last
  bool last_is_rare = false;         ///< the model's last layer is `rare` whatever the file says
  const char* rare = full_attention;
  const char* usual = sliding_attention;
  std::string_view same_keys = {};  ///< which no class reads and that must agree with the period
  std::string_view if_unlisted =
      {};  ///< the type of all layers, where dicts name types and no list does
  std::string_view without_rotary = {};  ///< the type of layers that turn nothing
  bool lists_go_on = false;              ///< for layers that predict further tokens
};

/// Ways in which files tell widths and numbers of heads.
enum class HfHeads {
  Usual,
  Latent,          ///< of rotary and other channels, the former last; of keys as many as of queries
  LastChannels,    ///< the last channels turn, of a width of their own
  LocalByKeys,     ///< swa_ keys tell those of local layers; values have a width of their own
  LocalBySetting,  ///< attention_other_setting tells those of local layers
  WideGlobal       ///< global_head_dim tells the width in global layers
};

/// Meanings of rope_interleave in files of models with latent heads.
enum class HfInterleave { PicksPairing, MustBeTrue, Unread };

/// Flags that tell how many heads of keys there are, in place of their number.
enum class HfMultiQuery {
  None,
  Flag,         ///< multi_query_attention: 1
  GroupNumber,  ///< multi_query_attention: multi_query_group_num
  Falcon,       ///< multi_query: 1, unless new_decoder_architecture
  FalconGroups  ///< new_decoder_architecture, whether or not the file has it
};

/// Layers of a class that see a window alone.
enum class HfWindows {
  None,                ///< none: the class reads no key of windows
  Unknown,             ///< not known
  Every,               ///< all, where there is one
  ByType,              ///< those of the type sliding_attention
  Alternate,           ///< the same, by default those of even number
  AfterFirst,          ///< by default all from max_window_layers on
  AfterFirstSwitched,  ///< the same, where use_sliding_window says so
  EverySwitched,       ///< all, where use_sliding_window says so
  WithoutRotary,       ///< by default those that turn nothing, where use_sliding_window says so
  ChunksWithRotary,    ///< chunks, in layers that turn
  BothSides,           ///< both sides of local_attention, in layers of the type sliding_attention
  HalfOfLocal          ///< half of local_attention, in layers of that type
};

/// Values of use_bidirectional_attention that make windows reach as far ahead as back.
enum class HfBidirectional { Never, IfTrueOrAll, IfAll };

constexpr Index as_many_as_heads = 0;
constexpr Index unknown_kv_heads = -1;

/// Heads and windows.
struct HfTypeAttention {
  HfHeads heads = HfHeads::Usual;
  HfInterleave interleave = HfInterleave::PicksPairing;
  Index head_dim = 0;                 ///< 0 for hidden_size / num_attention_heads
  Index kv_heads = unknown_kv_heads;  ///< where the file does not tell
  HfMultiQuery multi_query = HfMultiQuery::None;
  HfWindows windows = HfWindows::None;
  Index window = 0;  ///< its size where the file does not tell; 0 for no window
  HfBidirectional bidirectional = HfBidirectional::Never;
  bool sinks = false;
  std::string_view sparse = {};    ///< the type of layers whose keys an indexer chooses
  bool output_turns_back = false;  ///< LayerAttention::output_turns_back
};

/// Factors that scores are multiplied with.
enum class HfScale {
  HeadDim,                 ///< head_dim^-1/2
  One,                     ///< 1: queries and keys are normalized
  QueryScalar,             ///< query_pre_attn_scalar^-1/2, by default 1/16
  Multiplier,              ///< attention_multiplier, by default 1
  MultiplierIfGiven,       ///< attention_multiplier, by default head_dim^-1/2
  MupHeadDim,              ///< mup_attn_multiplier over head_dim
  KeyMultiplier,           ///< key_multiplier, which keys are multiplied with, by head_dim^-1/2
  QueryLatent,             ///< (hidden_size / q_lora_rank)^1/2 of queries, by head_dim^-1/2
  HalfOfHeadDim,           ///< (head_dim / 2)^-1/2
  OutputMultiplierIfGiven  ///< attn_output_multiplier, by default head_dim^-1/2
};

/// Keys that tell the temperature of queries.
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
  /// attn_logit_softcapping where the file does not tell, 0 for no cap; nullopt where there is no such key.
  std::optional<double> softcap = std::nullopt;
  HfTemperature temperature = HfTemperature::None;
};

/// Sizes that a text model's part of a file leaves out, since parts are saved without what is usual. A file
/// of its own is saved with all of them, so that one without is no whole file.
struct HfSizes {
  Index hidden_size = 0, heads = 0, layers = 0, length = 0;
};

/// Form of the file, and whether the model has a rotary encoding at all.
struct HfTypeFile {
  std::string_view own_names = {};  ///< keys, as own=usual
  /// Brings what needs more than other names into the usual form: set(the file's keys, what is read in
  /// their place).
  void (*own_form)(const JsonKeys& keys, nlohmann::json& config) = nullptr;
  std::string_view ignored = {};       ///< keys that may go unread, since they change nothing here
  std::string_view encoding = "rope";  ///< position_embedding_type, where the file does not tell
  bool needs_rope_parameters = false;  ///< without which nothing turns
  Index only_depth = 0;                ///< models of this number of layers alone turn; 0: all
  HfSizes sizes = {};                  ///< of classes whose sizes were the same in all releases
};

/// Row of a model_type of Hugging Face: the pairing of the checkpoint's channels, the traits that set the
/// model apart, and the defaults of the configuration class for what config.json leaves out.
struct HfModelType {
  std::string_view names;  ///< of types that are alike in all of it
  HfTypeRope rope = {};
  HfTypeLayers layers = {};
  HfTypeAttention attention = {};
  HfTypeScores scores = {};
  HfTypeFile file = {};
};

}  // namespace detail
POSENC_END
