// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>

#include <array>

// Model types of Hugging Face whose layers are alike, except that some may have a window. Their
// sources: hf_model_type.hpp.
POSENC_BEGIN
namespace detail {

inline constexpr std::array hf_window_types = [] {
  using enum HfWindowPattern;
  using Dicts = HfDicts;
  using Scale = HfScale;
  using Temperature = HfTemperature;
  constexpr auto half = PairingKind::HalfRotate;
  constexpr Index same = kv_heads_equal_heads;
  constexpr auto full = full_attention;
  // Values shared by several rows.
  constexpr auto halves = [](double base = 10000) {
    return HfTypeRope{.pairing = PairingKind::HalfRotate, .base = base};
  };
  constexpr HfTypeRope phi3_rope = {
      .pairing = half, .trained_length = 4096, .dicts = Dicts::One, .yarn_is_longrope = true};
  constexpr auto laguna_dicts =
      R"({"full_attention": {"rope_theta": 500000.0, "partial_rotary_factor": 0.5},)"
      R"( "sliding_attention": {"rope_theta": 10000.0, "partial_rotary_factor": 1.0}})";
  return std::to_array<HfModelType>({
      {.names = "dots1",
       .rope = halves(),
       .attention = {.kv_heads = 32, .windows = AfterFirst, .window = 4096, .first_windowed = 62},
       .norms = {1e-6, rms_of_heads}},
      {.names = "gemma2",
       .rope = halves(),
       .attention = {.head_dim = 256, .kv_heads = 4, .windows = Alternate, .window = 4096},
       .scores = {.scale = Scale::QueryScalar, .softcap = 50},
       .norms = {1e-6},
       .file = {.key_aliases = "sliding_window_size=sliding_window"}},
      {.names = "gpt_oss",
       .rope = {.pairing = half,
                .base = 150000,
                .default_dict =
                    R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,)"
                    R"( "truncate": false, "original_max_position_embeddings": 4096})",
                .is_null_ambiguous = true},
       .attention =
           {.head_dim = 64, .kv_heads = 8, .windows = Alternate, .window = 128, .sinks = true},
       .norms = {1e-5}},
      {.names = "kyutai_speech_to_text",
       .rope = halves(0),
       .attention = {.kv_heads = same, .windows = Every, .window = 375},
       .norms = {1e-8}},
      {.names = "laguna",
       .rope = {.pairing = half, .base = 0, .default_dict = laguna_dicts},
       .layers = {.default_type = full},
       .attention = {.head_dim = 128, .kv_heads = 8, .windows = ByType, .window = 512},
       .norms = {1e-6, rms_of_heads}},
      {.names = "mellum",
       .rope = {.pairing = half,
                .base = 0,
                .default_dict = R"({"full_attention": {"rope_theta": 500000.0},)"
                                R"( "sliding_attention": {"rope_theta": 10000.0}})"},
       .layers = {.default_type = full},
       .attention = {.head_dim = 128, .kv_heads = 4, .windows = ByType, .window = 1024},
       .norms = {1e-6, rms_of_heads}},
      {.names = "mimi",
       .rope = halves(),
       .attention = {.kv_heads = 8, .windows = Every, .window = 250},
       .norms = {1e-5}},
      {.names = "mimo",
       .rope = halves(0),
       .attention = {.kv_heads = 32, .windows = AfterFirstSwitched, .window = 4096}},
      {.names = "ministral",
       .rope = halves(0),
       .attention = {.kv_heads = 8, .windows = ByType, .window = 4096},
       .norms = {1e-6}},
      {.names = "ministral3",
       .rope = {.pairing = half, .base = 0, .must_have_dict = true},
       .attention = {.kv_heads = 8, .windows = Every},
       .scores = {.temperature = Temperature::ScalingBeta},
       .norms = {1e-5}},
      {.names = "mistral voxtral_realtime_text",
       .rope = halves(),
       .attention = {.kv_heads = 8, .windows = Every, .window = 4096},
       .norms = {1e-6},
       .file = {.sizes = {4096, 32, 32, 131072}}},
      {.names = "mistral3", .rope = halves(0), .attention = {.windows = Every}, .norms = {1e-6}},
      {.names = "mixtral",
       .rope = halves(1000000),
       .attention = {.kv_heads = 8, .windows = Every},
       .norms = {1e-5}},
      {.names = "moshi",
       .rope = halves(),
       .attention = {.kv_heads = same, .windows = Every, .window = 3000},
       .norms = {1e-8}},
      // phi3_v and phi4mm have copies of Phi-3's class.
      {.names = "phi3",
       .rope = phi3_rope,
       .attention = {.kv_heads = same, .windows = Every},
       .norms = {1e-5}},
      {.names = "phi3_v", .rope = phi3_rope, .attention = {.kv_heads = same, .windows = Every}},
      {.names = "phi3small",
       .rope = halves(1000000),
       .attention = {.kv_heads = 8, .windows = Unknown},
       .scores = {.scale = Scale::MupHeadDim},
       .file = {.key_aliases = "rope_embedding_base=rope_theta",
                .ignored_keys = "blocksparse_block_size blocksparse_homo_head_pattern "
                                "blocksparse_num_local_blocks "
                                "blocksparse_triton_kernel_block_size blocksparse_vert_stride "
                                "dense_attention_every_n_layers"}},
      {.names = "phi4_multimodal",
       .rope = phi3_rope,
       .attention = {.kv_heads = 8, .windows = Every},
       .norms = {1e-5}},
      {.names = "phimoe",
       .rope = {.pairing = half, .base = 1000000, .dicts = Dicts::One, .yarn_is_longrope = true},
       .attention = {.kv_heads = 8, .windows = Every},
       .norms = {1e-5}},
      {.names = "qwen2",
       .rope = halves(),
       .attention = {.kv_heads = 32, .windows = AfterFirstSwitched, .window = 4096},
       .norms = {1e-6},
       .file = {.sizes = {4096, 32, 32, 32768}}},
      {.names = "qwen2_moe",
       .rope = halves(),
       .attention = {.kv_heads = 16, .windows = ListedSwitched, .window = 4096},
       .norms = {1e-6}},
      {.names = "qwen3",
       .rope = halves(),
       .attention =
           {.head_dim = 128, .kv_heads = 32, .windows = AfterFirstSwitched, .window = 4096},
       .norms = {1e-6, rms_of_heads}},
      {.names = "qwen3_moe",
       .rope = halves(),
       .attention = {.kv_heads = 4, .windows = EverySwitched, .window = 4096},
       .norms = {1e-6, rms_of_heads}},
      {.names = "qwen3_omni_moe_talker_code_predictor",
       .rope = halves(0),
       .attention = {.head_dim = 128, .kv_heads = 8, .windows = AfterFirst},
       .norms = {1e-6, rms_of_heads},
       .file = {.sizes = {1024, 16, 5, 32768}}},
      // vllm, solar.py (00bd149), which has no window; upstage's own code was not found.
      {.names = "solar", .rope = halves(), .attention = {.kv_heads = same, .windows = Unknown}},
      {.names = "starcoder2",
       .rope = halves(),
       .attention = {.kv_heads = 2, .windows = Every},
       .norms = {1e-5}},
      {.names = "transformer",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .attention = {.kv_heads = same, .windows = Every},
       .norms = {.qk = std::nullopt},
       .file = {.key_aliases = "num_heads=num_attention_heads num_kv_heads=num_key_value_heads "
                               "window_size=sliding_window"}},
      {.names = "vaultgemma",
       .rope = halves(),
       .attention = {.head_dim = 256, .kv_heads = 4, .windows = Alternate, .window = 4096},
       .scores = {.scale = Scale::QueryScalar, .softcap = 50},
       .norms = {1e-6}},
  });
}();

}  // namespace detail
POSENC_END
