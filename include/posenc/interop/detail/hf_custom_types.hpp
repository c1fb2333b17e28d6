// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_dict_conversions.hpp>
#include <posenc/interop/detail/hf_key_aliases.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>

#include <array>

// Model types of Hugging Face whose files distinguish layers in a way of their own. Sources:
// hf_model_type.hpp.
POSENC_BEGIN
namespace detail {

inline constexpr std::array hf_custom_types = [] {
  using enum HfWindowPattern;
  using Dicts = HfDicts;
  using Heads = HfHeads;
  using Layers = HfLayers;
  using Scale = HfScale;
  using Temperature = HfTemperature;
  constexpr auto half = PairingKind::HalfRotate, inter = PairingKind::Interleaved;
  constexpr Index same = kv_heads_equal_heads;
  constexpr HfTypeAttention mha = {.kv_heads = same};
  constexpr HfTypeLayers exaone_layers = {
      .form = Layers::PeriodOrLetters, .period = 4, .period_key = "sliding_window_pattern"};
  constexpr auto mixers = "linear_attention=mamba full_attention=attention";
  return std::to_array<HfModelType>({
      {.names = "bamba",
       .rope = {.pairing = half, .share = 0.5, .dicts = Dicts::One},
       .layers = {.form = Layers::AttentionIndex,
                  .type_aliases = mixers,
                  .type_without_rotary = "mamba"},
       .attention = {.kv_heads = 8},
       .norms = {1e-5},
       .file = {.key_aliases = "attn_rotary_emb=rotary_dim", .convert = &hf_set_attention_indices}},
      {.names = "cohere2_moe",
       .rope = {.pairing = inter, .dicts = Dicts::One},
       .layers = {.form = Layers::PeriodAfterDense,
                  .period = 4,
                  .period_key = "sliding_window_pattern"},
       .attention = {.head_dim = 128, .kv_heads = same, .windows = ByType, .window = 4096},
       .norms = {1e-5}},
      // transformers, configuration_deepseek_v4.py (015c078).
      {.names = "deepseek_v4",
       .rope = {.pairing = inter, .is_share_of_whole_head = true},
       .layers = {.form = Layers::Ratios, .lists_may_be_longer = true},
       .attention = {.heads = Heads::LastChannels,
                     .head_dim = 512,
                     .kv_heads = 1,
                     .windows = Every,
                     .window = 128,
                     .sinks = true,
                     .output_inverse_rotated = true},
       .norms = {.epsilon = 1e-6,
                 .qk = LayerQkNorm{.kind = LayerQkNormKind::Rms,
                                   .weights = LayerQkNormWeights::FactorsOfKeys}},
       .file = {.ignored_keys = "compress_rates compress_rate_csa compress_rate_hca"}},
      {.names = "exaone4",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .layers = exaone_layers,
       .attention = {.kv_heads = 32, .windows = ByType, .window = 4096},
       .norms = {1e-5, rms_of_heads}},
      {.names = "exaone4_5_text exaone_moe",
       .rope = {.pairing = half, .base = 0, .dicts = Dicts::One},
       .layers = exaone_layers,
       .attention = {.kv_heads = 32, .windows = ByType, .window = 4096},
       .norms = {1e-5, rms_of_heads}},
      // Layers without a window are not rotated.
      {.names = "flint",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .layers = {.period = 4, .type_without_rotary = full_attention},
       .attention =
           {.head_dim = 128, .kv_heads = 4, .windows = ByType, .window = 513, .sinks = true},
       .norms = {1e-6, rms_of_heads},
       .file = {.convert = &hf_add_types_with_global_ends}},
      // A base for each layer: transformers, modular_granite_swa.py (1b27b6b).
      {.names = "granite_swa",
       .rope = {.pairing = half, .base = 0},
       .layers = {.form = Layers::ListedBases, .period = 4, .rare_is_first = true},
       .attention = {.kv_heads = 4, .windows = ByType, .window = 128, .sinks = true},
       .scores = {.scale = Scale::Multiplier},
       .norms = {1e-5}},
      {.names = "granitemoe_swa",
       .rope = {.pairing = half, .base = 0},
       .layers = {.form = Layers::ListedBases, .period = 4, .rare_is_first = true},
       .attention = {.kv_heads = same, .windows = ByType, .window = 128, .sinks = true},
       .scores = {.scale = Scale::Multiplier},
       .norms = {1e-6}},
      {.names = "granitemoehybrid",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .layers = {.form = Layers::Mixers, .type_aliases = mixers, .type_without_rotary = "mamba"},
       .attention = mha,
       .scores = {.scale = Scale::Multiplier},
       .norms = {1e-6},
       .file = {.encoding = "nope"}},
      {.names = "lfm2 lfm2_moe",
       .rope = {.pairing = half, .base = 1000000, .dicts = Dicts::One},
       .layers = {.form = Layers::Convolutions},
       .attention = {.kv_heads = 8},
       .norms = {1e-5, rms_of_heads},
       .file = {.key_aliases = "theta=rope_theta"}},
      {.names = "lfm3",
       .rope = {.pairing = half,
                .base = 1000000,
                .default_dict =
                    R"({"full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0,)"
                    R"( "partial_rotary_factor": 0.5},)"
                    R"( "sliding_attention": {"rope_theta": 10000.0}})"},
       .layers = {.type_without_rotary = "conv"},
       .attention = {.head_dim = 128, .kv_heads = 4, .windows = ByType, .window = 256},
       .norms = {1e-5, rms_of_heads},
       .file = {.convert = &hf_add_types_with_convolutions, .ignored_keys = "use_attention_gate"}},
      {.names = "llama4 llama4_text",
       .rope = {.pairing = inter, .base = 500000, .dicts = Dicts::One},
       .layers = {.form = Layers::NoRopeIndex},
       .attention = {.head_dim = 128, .kv_heads = 8, .windows = ChunksWithRotary, .window = 8192},
       .scores = {.temperature = Temperature::FloorScale},
       .norms = {.epsilon = 1e-5,
                 .qk = plain_rms_after_rotation,
                 .qk_layers = QkNormLayers::WithRotary,
                 .qk_flag = "use_qk_norm",
                 .qk_is_on = true}},
      // transformers, configuration_mimo_v2_flash.py (019770d); mlx-lm, mimo_v2_flash.py (04e6af1).
      {.names = "mimo_v2_flash",
       .rope = {.pairing = half,
                .base = 5000000,
                .bases = {"swa_rope_theta", 10000},
                .share = 0.334,
                .dicts = Dicts::NeverScales},
       .layers = {.form = Layers::LocalMarks},
       .attention = {.heads = Heads::LocalByKeys,
                     .head_dim = 192,
                     .kv_heads = 4,
                     .windows = ByType,
                     .window = 128},
       .norms = {1e-5},
       .file = {.key_aliases =
                    "sliding_window_size=sliding_window attention_chunk_size=sliding_window"}},
      {.names = "mllama mllama_text_model",
       .rope = {.pairing = half, .base = 500000, .dicts = Dicts::One},
       .layers = {.form = Layers::CrossIndex},
       .attention = {.kv_heads = 8},
       .norms = {.epsilon = 1e-5, .qk = rms_of_heads, .qk_layers = QkNormLayers::Cross}},
      // NVIDIA's configuration_decilm.py and block_config.py.
      {.names = "nemotron-nas",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .layers = {.form = Layers::Blocks, .type_without_rotary = no_attention}},
      {.names = "smallthinker",
       .rope = {.pairing = half, .base = 0, .dicts = Dicts::One},
       .layers = {.form = Layers::NoRopeIndex},
       .attention = {.windows = ByType},
       .file = {.key_aliases = "rope_layout=no_rope_layers sliding_window_size=sliding_window",
                .convert = &hf_set_window_layers}},
      {.names = "smollm3",
       .rope = {.pairing = half, .base = 2000000, .dicts = Dicts::One},
       .layers = {.form = Layers::NoRopeIndex},
       .attention = {.kv_heads = 4, .windows = WithoutRotary},
       .norms = {1e-6}},
      // mlx-lm, step3p5.py (166ebb9); vllm, step3p5.py. step3p7: transformers (09c24c1).
      {.names = "step3p5",
       .rope = {.pairing = half},
       .layers = {.form = Layers::ListedRotations, .lists_may_be_longer = true},
       .attention = {.heads = Heads::LocalBySetting, .windows = ByType, .window = 512},
       .scores = {.scale = Scale::QueryScalarIfGiven},
       .norms = {1e-5, rms_of_heads_plus_one},
       .file = {.key_aliases = "num_attention_groups=num_key_value_heads"}},
      {.names = "zamba2",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .layers = {.form = Layers::Mixers, .type_without_rotary = "mamba"},
       .attention = mha,
       .scores = {.scale = Scale::HalfOfHeadDim},
       .norms = {1e-5},
       .file = {.convert = &hf_set_double_width, .encoding = "nope"}},
  });
}();

}  // namespace detail
POSENC_END
