// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_dict_conversions.hpp>
#include <posenc/interop/detail/hf_key_aliases.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>

#include <array>

// Model types of Hugging Face that have latent heads, several position axes, or layers of two types
// in a period. Sources: hf_model_type.hpp.
POSENC_BEGIN
namespace detail {

inline constexpr std::array hf_layered_types = [] {
  using enum HfWindowPattern;
  using Bidirectional = HfBidirectional;
  using Dicts = HfDicts;
  using Heads = HfHeads;
  using Interleave = HfInterleave;
  using Mrope = HfMrope;
  using MultiQuery = HfMultiQuery;
  using Scale = HfScale;
  using Temperature = HfTemperature;
  using Form = HfRotationForm;
  constexpr auto half = PairingKind::HalfRotate, inter = PairingKind::Interleaved;
  constexpr Index same = kv_heads_equal_heads;
  constexpr HfTypeAttention mha = {.kv_heads = same};
  constexpr auto full = full_attention, linear = linear_attention;
  // Values shared by several rows.
  constexpr HfTypeRope gemma3_rope = {.pairing = half,
                                      .base = 1000000,
                                      .bases = {"rope_local_base_freq", 10000},
                                      .dicts = Dicts::ScalesGlobal};
  constexpr HfTypeLayers gemma3_layers = {.period = 6,
                                          .period_key = "sliding_window_pattern",
                                          .unread_period_keys = "_sliding_window_pattern"};
  constexpr HfTypeAttention gemma3_attention = {.head_dim = 256,
                                                .kv_heads = 4,
                                                .windows = ByType,
                                                .window = 4096,
                                                .bidirectional = Bidirectional::IfTrueOrAll};
  constexpr HfTypeRope gemma4_rope = {
      .pairing = half,
      .base = 0,
      .dicts = Dicts::OneForEachType,
      .default_dict = R"({"full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0,)"
                      R"( "partial_rotary_factor": 0.25},)"
                      R"( "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})"};
  constexpr HfTypeLayers gemma4_layers = {.period = 6, .last_is_rare = true};
  constexpr auto gemma4_attention = [](Index window) {
    return HfTypeAttention{.heads = Heads::WideGlobal,
                           .head_dim = 256,
                           .kv_heads = 4,
                           .windows = ByType,
                           .window = window,
                           .bidirectional = Bidirectional::IfAll};
  };
  constexpr HfTypeRope modernbert_rope = {.pairing = half,
                                          .base = 160000,
                                          .bases = {"local_rope_theta", 10000, "global_rope_theta"},
                                          .dicts = Dicts::OneForEachType};
  constexpr HfTypeRope qwen2_vl_rope = {
      .pairing = half, .base = 1000000, .dicts = Dicts::One, .mrope = Mrope::Chunked};
  constexpr HfTypeRope qwen3_vl_rope = {
      .pairing = half, .base = 0, .dicts = Dicts::One, .mrope = Mrope::Interleaved};
  constexpr HfTypeRope qwen35_rope = {
      .pairing = half, .base = 0, .share = 0.25, .dicts = Dicts::One, .mrope = Mrope::Interleaved};
  constexpr HfTypeLayers indexed_layers = {
      .type_aliases = "indexed_attention=full_attention deepseek_sparse_attention=full_attention"};
  constexpr HfTypeAttention latent = {.heads = Heads::Latent};
  constexpr HfTypeLayers between_linear = {.period = 4,
                                           .period_key = "full_attention_interval",
                                           .usual_type = linear,
                                           .type_without_rotary = linear};
  constexpr auto linear_keys =
      "linear_conv_kernel_dim linear_key_head_dim linear_num_key_heads linear_num_value_heads "
      "linear_value_head_dim";
  return std::to_array<HfModelType>({
      // Latent keys and values.
      {.names = "AXK1 axk1 kimi_k2 kimi_k25",
       .rope = {.pairing = inter, .base = 0, .dicts = Dicts::One},
       .attention = latent,
       .norms = {1e-6}},
      {.names = "axk2",
       .rope = {.pairing = inter, .dicts = Dicts::One},
       .layers = indexed_layers,
       .attention = {.heads = Heads::Latent, .interleave = Interleave::Unread, .sparse = full},
       .norms = {1e-6},
       .file = {.ignored_keys = "head_dim"}},
      {.names = "deepseek_v2",
       .rope = {.pairing = inter, .dicts = Dicts::One},
       .attention = {.heads = Heads::Latent, .interleave = Interleave::Unread},
       .norms = {1e-6}},
      {.names = "deepseek_v3 youtu",
       .rope = {.pairing = inter, .dicts = Dicts::One},
       .attention = latent,
       .norms = {1e-6}},
      {.names = "glm4_moe_lite",
       .rope = {.pairing = inter, .dicts = Dicts::One},
       .attention = latent,
       .norms = {1e-5}},
      {.names = "youtu_llm", .rope = {.pairing = inter, .dicts = Dicts::One}, .attention = latent},
      {.names = "deepseek_v32",
       .rope = {.pairing = inter, .dicts = Dicts::One},
       .layers = indexed_layers,
       .attention = {.heads = Heads::Latent, .sparse = full},
       .norms = {1e-6}},
      // Its class puts qk_rope_head_dim into head_dim.
      {.names = "glm_moe_dsa",
       .rope = {.pairing = inter, .base = 0, .dicts = Dicts::One},
       .layers = indexed_layers,
       .attention = {.heads = Heads::Latent, .interleave = Interleave::MustBeTrue, .sparse = full},
       .norms = {1e-5},
       .file = {.ignored_keys = "head_dim"}},
      {.names = "hy_v4",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .layers = indexed_layers,
       .attention = {.heads = Heads::Latent,
                     .interleave = Interleave::Unread,
                     .sinks = true,
                     .sparse = full},
       .norms = {1e-5},
       .file = {.ignored_keys = "head_dim learnable_sink_init"}},
      {.names = "hy_v4_vl_text",
       .rope = {.pairing = inter, .dicts = Dicts::One, .mrope = Mrope::Interleaved},
       .layers = indexed_layers,
       .attention = {.heads = Heads::Latent,
                     .interleave = Interleave::Unread,
                     .sinks = true,
                     .sparse = full},
       .norms = {1e-5},
       .file = {.ignored_keys = "head_dim learnable_sink_init"}},
      // One layer attends twice. A factor of the latent of keys and values is in no setting: see
      // read_hf_config().
      {.names = "longcat_flash",
       .rope = {.pairing = inter, .base = 10000000, .dicts = Dicts::One},
       .attention = latent,
       .scores = {.scale = Scale::QueryLatent},
       .norms = {1e-5},
       .file = {.convert = &hf_set_double_layers}},
      // mlx-lm, longcat_flash_ngram.py (06232ba).
      {.names = "longcat_flash_ngram",
       .rope = {.pairing = inter, .base = 0, .dicts = Dicts::One},
       .attention = latent,
       .scores = {.scale = Scale::QueryLatent},
       .file = {.convert = &hf_set_double_layers_with_switches}},
      {.names = "minicpm3",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .attention = {.heads = Heads::Latent, .interleave = Interleave::Unread},
       .norms = {1e-5}},
      // transformers, modular_mistral4.py (0207579); see hf_reject_magnitude().
      {.names = "mistral4",
       .rope = {.pairing = inter,
                .base = 0,
                .dicts = Dicts::One,
                .must_have_dict = true,
                .is_mscale_ambiguous = true,
                .has_mscale = false,
                .is_share_of_whole_head = true},
       .attention = latent,
       .scores = {.temperature = Temperature::ScalingBeta},
       .norms = {1e-6}},
      // Its scale ignores mscale.
      {.names = "plm",
       .rope = {.pairing = inter, .base = 0, .dicts = Dicts::One, .has_mscale = false},
       .attention = latent},
      {.names = "sarvam_mla",
       .rope = {.pairing = inter, .dicts = Dicts::One},
       .attention = latent,
       .norms = {1e-6},
       .file = {.ignored_keys = "head_dim q_head_dim"}},
      // Several position axes.
      // vllm, chatglm.py; see hf_add_half_heads().
      {.names = "chatglm",
       .rope =
           {.pairing = inter, .is_base_fixed = true, .dicts = Dicts::One, .form = Form::HalfHeads},
       .attention = {.multi_query = MultiQuery::GroupNumber},
       .file = {.ignored_keys = "apply_query_key_layer_scaling"}},
      // Axes alternate; a dict that is null means no rotation.
      {.names = "cohere_compass_text",
       .rope = {.pairing = half,
                .mrope = Mrope::Interleaved,
                .has_stray_keys = true,
                .null_is_no_rotary = true},
       .layers = {.default_type = full},
       .attention = {.kv_heads = same, .windows = ByType, .window = 4096},
       .norms = {1e-5}},
      // Axes alternate without a key.
      {.names = "cosmos3_edge_text",
       .rope = {.pairing = half,
                .base = 100000000,
                .dicts = Dicts::One,
                .mrope = Mrope::Interleaved,
                .default_dict = R"({"mrope_section": [24, 20, 20]})"},
       .attention = {.head_dim = 128, .kv_heads = 8},
       .norms = {1e-5},
       .file = {.sizes = {2048, 16, 28, 131072}}},
      {.names = "dinov3_vit",
       .rope = {.pairing = half, .base = 100, .dicts = Dicts::One, .form = Form::PatchGrid},
       .attention = mha,
       .norms = {1e-5}},
      {.names = "ernie4_5_moe_vl ernie4_5_vl_moe ernie4_5_vl_moe_text",
       .rope = {.pairing = inter, .base = 0, .dicts = Dicts::One, .mrope = Mrope::TimeLast},
       .norms = {1e-5}},
      {.names = "glm4v glm4v_text",
       .rope = {.pairing = inter, .share = 0.5, .dicts = Dicts::One, .mrope = Mrope::Chunked},
       .norms = {1e-5}},
      {.names = "glm4v_moe glm4v_moe_text",
       .rope = {.pairing = half, .share = 0.5, .dicts = Dicts::One, .mrope = Mrope::Chunked},
       .attention = {.kv_heads = 8},
       .norms = {1e-5}},
      {.names = "glm_ocr_text",
       .rope = {.pairing = inter, .dicts = Dicts::One, .mrope = Mrope::Chunked},
       .attention = {.kv_heads = 8},
       .norms = {1e-5}},
      {.names = "paddleocr_vl_text",
       .rope = {.pairing = half, .base = 500000, .dicts = Dicts::One, .mrope = Mrope::Chunked},
       .attention = {.head_dim = 128, .kv_heads = 2},
       .norms = {1e-5}},
      {.names = "qwen2_5_omni_talker",
       .rope = qwen2_vl_rope,
       .attention =
           {.head_dim = 128, .kv_heads = 4, .windows = AfterFirstSwitched, .window = 32768},
       .norms = {1e-6},
       .file = {.ignored_keys = "position_id_per_seconds", .sizes = {3584, 28, 28, 32768}}},
      {.names = "qwen2_5_omni_text",
       .rope = qwen2_vl_rope,
       .attention = {.kv_heads = 4, .windows = AfterFirstSwitched, .window = 32768},
       .norms = {1e-6}},
      {.names = "qwen2_5_vl qwen2_5_vl_text qwen2_vl qwen2_vl_text",
       .rope = qwen2_vl_rope,
       .attention =
           {.kv_heads = 8, .windows = AfterFirstSwitched, .window = 4096, .first_windowed = 80},
       .norms = {1e-5}},
      {.names = "qwen3_omni_moe_text", .rope = qwen3_vl_rope, .norms = {1e-6, rms_of_heads}},
      {.names = "qwen3_omni_moe_talker_text",
       .rope = qwen3_vl_rope,
       .attention = {.kv_heads = 2},
       .norms = {1e-6, rms_of_heads},
       .file = {.sizes = {1024, 16, 20, 32768}}},
      {.names = "qwen3_vl qwen3_vl_moe qwen3_vl_moe_text",
       .rope = qwen3_vl_rope,
       .attention = {.head_dim = 128},
       .norms = {1e-6, rms_of_heads}},
      {.names = "qwen3_vl_text",
       .rope = qwen3_vl_rope,
       .attention = {.head_dim = 128, .kv_heads = 32},
       .norms = {1e-6, rms_of_heads}},
      // Layers of two types with a period.
      {.names = "afmoe",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .layers = {.period = 4,
                  .period_key = "global_attn_every_n_layers",
                  .type_without_rotary = full},
       .attention = {.head_dim = 128, .kv_heads = same, .windows = ByType, .window = 1024},
       .norms = {1e-5, rms_of_heads}},
      {.names = "cohere2",
       .rope = {.pairing = inter, .dicts = Dicts::One},
       .layers = {.period = 4,
                  .period_key = "sliding_window_pattern",
                  .unread_period_keys = "_sliding_window_pattern layer_switch",
                  .type_without_rotary = full},
       .attention = {.kv_heads = same, .windows = ByType, .window = 4096},
       .norms = {1e-5}},
      {.names = "cwm",
       .rope = {.pairing = half,
                .base = 1000000,
                .dicts = Dicts::One,
                .default_dict =
                    R"({"rope_type": "llama3", "rope_theta": 1000000.0, "factor": 16.0,)"
                    R"( "low_freq_factor": 1.0, "high_freq_factor": 4.0,)"
                    R"( "original_max_position_embeddings": 8192})"},
       .layers = {.period = 4, .rare_is_first = true},
       .attention = {.head_dim = 128, .kv_heads = 8, .windows = ByType, .window = 8192},
       .norms = {1e-5}},
      {.names = "embedding_gemma2_text",
       .rope = {.pairing = half,
                .base = 0,
                .dicts = Dicts::OneForEachType,
                .default_dict = R"({"full_attention": {"rope_theta": 1000000.0},)"
                                R"( "sliding_attention": {"rope_theta": 10000.0}})"},
       .layers = {.period = 6, .period_key = "sliding_window_pattern", .last_is_rare = true},
       .attention = {.heads = Heads::WideGlobal,
                     .head_dim = 256,
                     .kv_heads = 2,
                     .windows = Radius,
                     .window = 512},
       .scores = {.scale = Scale::One},
       .norms = {1e-6, rms_of_heads},
       .file = {.convert = &hf_set_global_widths_of_one_group}},
      {.names = "gemma3",
       .rope = gemma3_rope,
       .layers = gemma3_layers,
       .attention = gemma3_attention,
       .scores = {.scale = Scale::QueryScalar, .softcap = 0},
       .norms = {1e-6, rms_of_heads_plus_one},
       .file = {.convert = &hf_reject_flat_rope_parameters}},
      {.names = "gemma3_text",
       .rope = gemma3_rope,
       .layers = gemma3_layers,
       .attention = gemma3_attention,
       .scores = {.scale = Scale::QueryScalar, .softcap = 0},
       .norms = {1e-6, rms_of_heads_plus_one},
       .file = {.convert = &hf_reject_flat_rope_parameters, .sizes = {2304, 8, 26, 131072}}},
      {.names = "gemma3n gemma3n_text",
       .rope = gemma3_rope,
       .layers = {.period = 5},
       .attention = {.head_dim = 256, .kv_heads = 2, .windows = ByType, .window = 512},
       .scores = {.scale = Scale::One},
       .norms = {1e-6, rms_of_heads}},
      {.names = "gemma4 gemma4_text",
       .rope = gemma4_rope,
       .layers = gemma4_layers,
       .attention = gemma4_attention(512),
       .scores = {.scale = Scale::One},
       .norms = {1e-6, rms_of_heads},
       .file = {.convert = &hf_set_global_widths}},
      {.names = "gemma4_unified gemma4_unified_text",
       .rope = gemma4_rope,
       .layers = gemma4_layers,
       .attention = gemma4_attention(1024),
       .scores = {.scale = Scale::One},
       .norms = {1e-6, rms_of_heads},
       .file = {.convert = &hf_set_global_widths}},
      {.names = "kolibri1",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .layers = {.period = 5, .type_without_rotary = full},
       .attention = {.head_dim = 128, .kv_heads = 4, .windows = ByType, .window = 513},
       .norms = {1e-6, rms_of_heads}},
      {.names = "modernbert",
       .rope = modernbert_rope,
       .layers = {.period = 3, .period_key = "global_attn_every_n_layers", .rare_is_first = true},
       .attention = {.kv_heads = same, .windows = BothSides, .window = 128},
       .norms = {1e-5},
       .file = {.ignored_keys = "position_embedding_type"}},
      {.names = "modernbert-decoder",
       .rope = modernbert_rope,
       .layers = {.period = 3, .period_key = "global_attn_every_n_layers", .rare_is_first = true},
       .attention = {.kv_heads = same, .windows = HalfOfLocal, .window = 128},
       .norms = {1e-5},
       .file = {.ignored_keys = "position_embedding_type"}},
      {.names = "olmo3",
       .rope = {.pairing = half, .base = 0, .dicts = Dicts::ScalesGlobal},
       .layers = {.period = 4},
       .attention = {.kv_heads = same, .windows = ByType, .window = 4096},
       .norms = {1e-5, rms_of_all_heads}},
      {.names = "olmo_hybrid",
       .rope = {.pairing = half, .base = 0, .dicts = Dicts::One},
       .layers = {.period = 4, .usual_type = linear, .type_without_rotary = linear},
       .attention = mha,
       .norms = {1e-6, rms_of_all_heads},
       .file = {.ignored_keys = linear_keys, .needs_rope_parameters = true}},
      {.names = "qwen3_5 qwen3_5_moe qwen3_5_moe_text",
       .rope = qwen35_rope,
       .layers = between_linear,
       .attention = {.head_dim = 256},
       .norms = {1e-6, rms_of_heads_plus_one},
       .file = {.ignored_keys = linear_keys}},
      {.names = "qwen3_5_text",
       .rope = qwen35_rope,
       .layers = between_linear,
       .attention = {.head_dim = 256, .kv_heads = 4},
       .norms = {1e-6, rms_of_heads_plus_one},
       .file = {.ignored_keys = linear_keys}},
      {.names = "qwen3_next",
       .rope = {.pairing = half, .share = 0.25, .dicts = Dicts::One},
       .layers = between_linear,
       .attention = {.head_dim = 256, .kv_heads = 2},
       .norms = {1e-6, rms_of_heads_plus_one},
       .file = {.ignored_keys = linear_keys}},
      // transformers, modular_qwen4_exp.py (01377e7).
      {.names = "qwen4_exp_text",
       .rope = qwen3_vl_rope,
       .layers = {.period = 4,
                  .period_key = "full_attention_interval",
                  .usual_type = linear,
                  .type_aliases = "hybrid_indexed=full_attention indexed_attention=full_attention "
                                  "deepseek_sparse_attention=full_attention "
                                  "qwen_sparse_attention=full_attention",
                  .type_without_rotary = linear},
       .attention = {.head_dim = 256, .kv_heads = 2, .sparse = full},
       .norms = {1e-6, rms_of_heads_plus_one},
       .file = {.ignored_keys = linear_keys}},
      // Its windows reach one key farther to the right than to the left, if their size is even.
      {.names = "t5gemma2_text",
       .rope = gemma3_rope,
       .layers = {.period = 6, .period_key = "sliding_window_pattern"},
       .attention = {.head_dim = 256, .kv_heads = 4, .windows = Unknown},
       .scores = {.scale = Scale::QueryScalar, .softcap = 0},
       .norms = {1e-6, rms_of_heads_plus_one},
       .file = {.sizes = {2304, 8, 26, 131072}}},
      {.names = "ultrabert",
       .rope = {.pairing = half,
                .base = 0,
                .dicts = Dicts::OneForEachType,
                .default_dict = R"({"full_attention": {"rope_theta": 2560000.0},)"
                                R"( "sliding_attention": {"rope_theta": 10000.0}})"},
       .layers = {.period = 3},
       .attention = {.kv_heads = same, .windows = Radius, .window = 128},
       .norms = {1e-6}},
      // A convolution, and a norm with a learned factor of keys, precede the rotation.
      {.names = "zaya",
       .rope =
           {.pairing = half,
            .base =
                0,
            .default_dict =
                R"({"full_attention": {"rope_theta": 5000000.0, "partial_rotary_factor": 0.5},)"
                R"( "sliding_attention": {"rope_theta": 10000.0, "partial_rotary_factor": 0.5}})",
            .has_stray_keys = true},
       .layers = {.type_aliases = "hybrid=full_attention hybrid_sliding=sliding_attention",
                  .default_type = full},
       .attention = {.head_dim = 128, .kv_heads = 2, .windows = ByType},
       .norms = {.epsilon = 1e-5, .qk = std::nullopt}},
  });
}();

}  // namespace detail
POSENC_END
