// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/detail/hf_dict_conversions.hpp>
#include <posenc/interop/detail/hf_key_aliases.hpp>
#include <posenc/interop/detail/hf_model_type.hpp>

#include <array>

// Model types of Hugging Face whose layers are alike except for windows. Their sources:
// hf_model_type.hpp.
POSENC_BEGIN
namespace detail {

inline constexpr std::array hf_plain_types = [] {
  using enum HfWindowPattern;
  using Dicts = HfDicts;
  using MultiQuery = HfMultiQuery;
  using Scale = HfScale;
  using Temperature = HfTemperature;
  constexpr auto half = PairingKind::HalfRotate, inter = PairingKind::Interleaved;
  constexpr Index same = kv_heads_equal_heads;
  constexpr HfTypeAttention mha = {.kv_heads = same};
  constexpr auto kv = [](Index heads) { return HfTypeAttention{.kv_heads = heads}; };
  constexpr auto heads = [](Index head_dim, Index kv_heads) {
    return HfTypeAttention{.head_dim = head_dim, .kv_heads = kv_heads};
  };
  constexpr auto full = full_attention;
  // Values shared by several rows.
  constexpr auto short_names =  // as MosaicML's
      "d_model=hidden_size n_heads=num_attention_heads n_kv_heads=num_key_value_heads "
      "n_layers=num_hidden_layers";
  constexpr HfTypeRope halves = {.pairing = half};
  constexpr HfTypeRope phi3_rope = {
      .pairing = half, .trained_length = 4096, .dicts = Dicts::One, .yarn_is_longrope = true};
  constexpr HfTypeScores grok_scores = {
      .scale = Scale::OutputMultiplierIfGiven, .softcap = 30, .temperature = Temperature::Length};
  constexpr HfTypeFile grok_file = {.key_aliases = "max_attn_value=attn_logit_softcapping",
                                    .convert = &hf_drop_grok_scaling};
  constexpr auto laguna_dicts =
      R"({"full_attention": {"rope_theta": 500000.0, "partial_rotary_factor": 0.5},)"
      R"( "sliding_attention": {"rope_theta": 10000.0, "partial_rotary_factor": 1.0}})";
  return std::to_array<HfModelType>({
      // No windows: every layer sees all keys.
      {.names = "apertus apertus1p5_text",
       .rope = {.pairing = half,
                .base = 12000000,
                .default_dict =
                    R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,)"
                    R"( "high_freq_factor": 4.0, "original_max_position_embeddings": 8192})",
                .is_null_ambiguous = true,
                .is_other_base_ambiguous = true},
       .attention = mha},
      // vllm's registry (0002bff) runs aquila and xverse as Llama.
      {.names = "aquila arcee deepseek_ocr2_text eurobert gpt_neox_japanese hunyuan_v1_dense "
                "hunyuan_v1_moe olmo olmo2 olmoe skywork xverse",
       .rope = halves,
       .attention = mha},
      // vllm, arctic.py (00db011); mlx-lm, bailing_moe.py (0506aad), Klear.py (1245c2e) and
      // telechat3.py (3cdc33f).
      {.names = "arctic bailing_moe dots_ocr grove_moe Klear rnd1 telechat3",
       .rope = {.pairing = half, .base = 0}},
      {.names = "aria_text llama",
       .rope = halves,
       .attention = mha,
       .file = {.sizes = {4096, 32, 32, 2048}}},
      // Models of 40 layers (13B) have ALiBi.
      {.names = "baichuan",
       .rope = {.pairing = half, .is_base_fixed = true, .dicts = Dicts::One},
       .attention = mha,
       .file = {.only_depth = 32}},
      {.names = "bailing_moe_v2",
       .rope = {.pairing = half, .base = 0, .needs_width = true, .dicts = Dicts::One},
       .attention = mha},
      {.names = "bitnet", .rope = {.pairing = half, .base = 500000}, .attention = kv(5)},
      {.names = "chameleon Dream", .rope = halves, .attention = kv(32)},
      {.names = "codegen gptj",
       .rope = {.pairing = inter, .needs_width = true, .dicts = Dicts::One},
       .attention = mha},
      {.names = "codeshell",
       .rope = halves,
       .attention = mha,
       .file = {.key_aliases = "num_query_groups=num_key_value_heads"}},
      // Releases of its class have the base 10000 or 500000.
      {.names = "cohere", .rope = {.pairing = inter, .base = 0}, .attention = mha},
      {.names = "csm",
       .rope = {.pairing = half, .base = 500000, .must_have_dict = true},
       .attention = kv(8)},
      {.names = "csm_depth_decoder_model",
       .rope = {.pairing = half, .base = 500000, .must_have_dict = true},
       .attention = kv(2),
       .file = {.sizes = {1024, 8, 4, 33}}},
      {.names = "dbrx",
       .rope = halves,
       .attention = kv(1),
       .file = {.key_aliases =
                    "d_model=hidden_size n_heads=num_attention_heads n_layers=num_hidden_layers "
                    "attn_config.clip_qkv=clip_qkv attn_config.kv_n_heads=num_key_value_heads "
                    "attn_config.rope_theta=rope_theta"}},
      // mlx-lm, deepseek.py (3dde7ef) and plamo.py (1245c2e); vllm, orion.py (0531c22).
      {.names = "deci deepseek orion plamo", .rope = halves},
      {.names = "dia_decoder",
       .rope = halves,
       .attention = heads(128, 4),
       .scores = {.scale = Scale::One},
       .file = {.ignored_keys = "cross_head_dim cross_num_attention_heads",
                .sizes = {2048, 16, 18, 3072}}},
      {.names = "dia_encoder",
       .rope = halves,
       .attention = heads(128, 16),
       .scores = {.scale = Scale::One},
       .file = {.sizes = {1024, 16, 12, 1024}}},
      {.names = "emu3_text_model", .rope = {.pairing = half, .base = 0}, .attention = kv(8)},
      {.names = "ernie4_5", .rope = {.pairing = inter, .base = 500000}, .attention = heads(128, 2)},
      {.names = "ernie4_5_moe", .rope = {.pairing = inter, .base = 500000}, .attention = kv(4)},
      {.names = "esm",
       .rope = {.pairing = half, .is_base_fixed = true},
       .attention = mha,
       .file = {.encoding = "absolute"}},
      {.names = "esmc",
       .rope = halves,
       .attention = mha,
       .file = {.key_aliases =
                    "d_model=hidden_size n_heads=num_attention_heads n_layers=num_hidden_layers"}},
      {.names = "evolla", .rope = {.pairing = half, .base = 500000}, .attention = kv(8)},
      // vllm's registry (0002bff) runs internlm3 as Llama; its config.py has the settings of `new`.
      // megrez_moe is Llama's in its authors' class for vllm.
      {.names = "exaone gte internlm2 internlm3 jais2 jina_embeddings_v3 megrez_moe new nomic_bert "
                "PanguEmbedded Yi",
       .rope = {.pairing = half, .base = 0},
       .attention = mha},
      {.names = "falcon RefinedWebModel",
       .rope = halves,
       .attention = {.multi_query = MultiQuery::Falcon}},
      // Keys are multiplied by key_multiplier before the rotation.
      {.names = "falcon_h1",
       .rope = {.pairing = half, .base = 0},
       .layers = {.type_aliases = "hybrid=full_attention"},
       .attention = kv(8),
       .scores = {.scale = Scale::KeyMultiplier},
       .file = {.key_aliases = "layers_block_type=layer_types"}},
      {.names = "flex_olmo", .rope = {.pairing = half, .base = 500000}, .attention = mha},
      {.names = "gemma",
       .rope = halves,
       .attention = heads(256, 16),
       .file = {.ignored_keys = "use_bidirectional_attention", .sizes = {3072, 16, 28, 8192}}},
      {.names = "glm glm4", .rope = {.pairing = inter, .share = 0.5}, .attention = heads(128, 2)},
      {.names = "glm4_moe", .rope = {.pairing = half, .share = 0.5}, .attention = kv(8)},
      {.names = "gpt_neox",
       .rope = {.pairing = half, .share = 0.25},
       .attention = mha,
       .file = {.convert = &hf_reject_unread_share}},
      {.names = "stablelm_epoch", .rope = {.pairing = half, .share = 0.25}, .attention = mha},
      {.names = "granite granite4_vision_text granitemoe granitemoeshared",
       .rope = halves,
       .attention = mha,
       .scores = {.scale = Scale::Multiplier}},
      {.names = "granite_docling_text",
       .rope = halves,
       .attention = kv(4),
       .scores = {.scale = Scale::Multiplier},
       .file = {.default_keys = R"({"attention_multiplier": 0.015625})",
                .sizes = {1024, 16, 28, 32768}}},
      // SGLang, srt/models/grok.py, for both.
      {.names = "grok-1",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .attention = mha,
       .scores = grok_scores,
       .file = grok_file},
      {.names = "grok-2",
       .rope = {.pairing = half, .base = 0, .dicts = Dicts::One},
       .scores = grok_scores,
       .file = grok_file},
      {.names = "helium", .rope = {.pairing = inter, .base = 100000}, .attention = heads(128, 20)},
      {.names = "hf_olmo llada",
       .rope = halves,
       .attention = {.kv_heads = same, .multi_query = MultiQuery::Flag},
       .file = {.key_aliases = short_names}},
      {.names = "higgs_audio_v2",
       .rope = {.pairing = half,
                .base = 500000,
                .default_dict =
                    R"({"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 0.125,)"
                    R"( "high_freq_factor": 0.5, "original_max_position_embeddings": 1024})",
                .is_other_base_ambiguous = true},
       .attention = heads(128, 8)},
      {.names = "hunyuan",
       .rope = halves,
       .attention = mha,
       .file = {.key_aliases = "attention_head_dim=head_dim"}},
      {.names = "hunyuan_vl hunyuan_vl_text",
       .rope = halves,
       // These are sections of XD-RoPE under either name.
       .file = {.key_aliases = "rope_parameters.mrope_section=rope_parameters.xdrope_section "
                               "rope_scaling.mrope_section=rope_scaling.xdrope_section"}},
      {.names = "hy_v3", .rope = {.pairing = half, .base = 11158840}, .attention = heads(128, 8)},
      {.names = "hyperclovax",
       .rope = halves,
       .attention = mha,
       .scores = {.scale = Scale::MultiplierIfGiven}},
      // Layers of attention to images between these are not counted.
      {.names = "idefics",
       .rope = halves,
       .attention = mha,
       .file = {.ignored_keys = "cross_layer_interval"}},
      // vllm's registry (0002bff) runs it as Llama.
      {.names = "internlm",
       .rope = halves,
       .attention = mha,
       .file = {.convert = &hf_set_internlm_rule}},
      {.names = "iquestcoder seed_oss", .rope = halves, .attention = heads(128, 8)},
      {.names = "jetmoe",
       .rope = halves,
       .attention = heads(128, 16),
       .file = {.convert = &hf_set_jetmoe_heads}},
      {.names = "minicpm",
       .rope = halves,
       .attention = {.kv_heads = same, .sparse = "minicpm_sparse"},
       .file = {.convert = &hf_set_minicpm_layers}},
      {.names = "minimax_m2",
       .rope = {.pairing = half, .base = 0, .needs_width = true, .dicts = Dicts::One}},
      {.names = "minimax_m3_vl_text",
       .rope = {.pairing = half, .base = 5000000, .share = 0.5},
       .attention = {.head_dim = 128, .kv_heads = 4, .sparse = "minimax_m3_sparse"},
       .file = {.convert = &hf_set_sparse_layers}},
      {.names = "mixformer-sequential phi-msft",
       .rope = {.pairing = half, .needs_width = true, .dicts = Dicts::One},
       .attention = mha,
       .file = {.key_aliases = "n_head_kv=num_key_value_heads"}},
      {.names = "molmo",
       .rope = halves,
       .attention = mha,
       .file = {.key_aliases = short_names,
                .convert = &hf_check_molmo,
                .ignored_keys = "attention_type do_random_scale float32_attention "
                                "query_pre_attn_scalar rope_impl"}},
      {.names = "molmo2_text",
       .rope = {.pairing = half, .base = 0},
       .attention = heads(128, 8),
       .file = {.convert = &hf_set_molmo2_scaling}},
      {.names = "nemotron", .rope = {.pairing = half, .share = 0.5}, .attention = mha},
      {.names = "neobert",
       .rope = {.pairing = inter},
       .attention = mha,
       .file = {.key_aliases = "max_length=max_position_embeddings"}},
      // mlx-lm, openelm.py (2699066).
      {.names = "openelm",
       .rope = halves,
       .attention = {.head_dim = 128},
       .file = {.key_aliases =
                    "max_context_length=max_position_embeddings model_dim=hidden_size "
                    "num_kv_heads=num_key_value_heads_per_layer "
                    "num_query_heads=num_attention_heads_per_layer "
                    "num_transformer_layers=num_hidden_layers rope_freq_constant=rope_theta"}},
      {.names = "persimmon", .rope = {.pairing = half, .base = 0, .share = 0.5}, .attention = mha},
      {.names = "phi",
       .rope = {.pairing = half, .share = 0.5},
       .attention = mha,
       .file = {.sizes = {2048, 32, 24, 2048}}},
      {.names = "qwen",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .attention = mha,
       .scores = {.temperature = Temperature::LogN}},
      {.names = "RefinedWeb",
       .rope = halves,
       .attention = {.multi_query = MultiQuery::FalconGroups}},
      {.names = "roformer", .rope = {.pairing = inter}, .attention = mha},
      {.names = "sarvam_moe",
       .rope = {.pairing = half, .base = 8000000},
       .attention = heads(64, 4)},
      {.names = "solar_open",
       .rope = {.pairing = half, .base = 1000000},
       .attention = heads(128, 8)},
      {.names = "stablelm", .rope = {.pairing = half, .share = 0.25}, .attention = kv(32)},
      // Tele-AI's modeling_telechat.py; vllm, telechat2.py (0c4bb0e).
      {.names = "telechat telechat2",
       .rope = halves,
       .attention = mha,
       .file = {.convert = &hf_set_telechat_rule}},
      // Layers may have windows.
      {.names = "dots1",
       .rope = halves,
       .attention = {.kv_heads = 32, .windows = AfterFirst, .window = 4096, .first_windowed = 62}},
      {.names = "gemma2",
       .rope = halves,
       .attention = {.head_dim = 256, .kv_heads = 4, .windows = Alternate, .window = 4096},
       .scores = {.scale = Scale::QueryScalar, .softcap = 50},
       .file = {.key_aliases = "sliding_window_size=sliding_window"}},
      {.names = "gpt_oss",
       .rope = {.pairing = half,
                .base = 150000,
                .default_dict =
                    R"({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,)"
                    R"( "truncate": false, "original_max_position_embeddings": 4096})",
                .is_null_ambiguous = true},
       .attention =
           {.head_dim = 64, .kv_heads = 8, .windows = Alternate, .window = 128, .sinks = true}},
      {.names = "kyutai_speech_to_text",
       .rope = {.pairing = half, .base = 0},
       .attention = {.kv_heads = same, .windows = Every, .window = 375}},
      {.names = "laguna",
       .rope = {.pairing = half, .base = 0, .default_dict = laguna_dicts},
       .layers = {.default_type = full},
       .attention = {.head_dim = 128, .kv_heads = 8, .windows = ByType, .window = 512}},
      {.names = "mellum",
       .rope = {.pairing = half,
                .base = 0,
                .default_dict = R"({"full_attention": {"rope_theta": 500000.0},)"
                                R"( "sliding_attention": {"rope_theta": 10000.0}})"},
       .layers = {.default_type = full},
       .attention = {.head_dim = 128, .kv_heads = 4, .windows = ByType, .window = 1024}},
      {.names = "mimi",
       .rope = halves,
       .attention = {.kv_heads = 8, .windows = Every, .window = 250}},
      {.names = "mimo",
       .rope = {.pairing = half, .base = 0},
       .attention = {.kv_heads = 32, .windows = AfterFirstSwitched, .window = 4096}},
      {.names = "ministral",
       .rope = {.pairing = half, .base = 0},
       .attention = {.kv_heads = 8, .windows = ByType, .window = 4096}},
      {.names = "ministral3",
       .rope = {.pairing = half, .base = 0, .must_have_dict = true},
       .attention = {.kv_heads = 8, .windows = Every},
       .scores = {.temperature = Temperature::ScalingBeta}},
      {.names = "mistral voxtral_realtime_text",
       .rope = halves,
       .attention = {.kv_heads = 8, .windows = Every, .window = 4096},
       .file = {.sizes = {4096, 32, 32, 131072}}},
      {.names = "mistral3", .rope = {.pairing = half, .base = 0}, .attention = {.windows = Every}},
      {.names = "mixtral",
       .rope = {.pairing = half, .base = 1000000},
       .attention = {.kv_heads = 8, .windows = Every}},
      {.names = "moshi",
       .rope = halves,
       .attention = {.kv_heads = same, .windows = Every, .window = 3000}},
      // phi3_v and phi4mm have copies of Phi-3's class.
      {.names = "phi3 phi3_v",
       .rope = phi3_rope,
       .attention = {.kv_heads = same, .windows = Every}},
      {.names = "phi3small",
       .rope = {.pairing = half, .base = 1000000},
       .attention = {.kv_heads = 8, .windows = Unknown},
       .scores = {.scale = Scale::MupHeadDim},
       .file = {.key_aliases = "rope_embedding_base=rope_theta",
                .ignored_keys = "blocksparse_block_size blocksparse_homo_head_pattern "
                                "blocksparse_num_local_blocks "
                                "blocksparse_triton_kernel_block_size blocksparse_vert_stride "
                                "dense_attention_every_n_layers"}},
      {.names = "phi4_multimodal",
       .rope = phi3_rope,
       .attention = {.kv_heads = 8, .windows = Every}},
      {.names = "phimoe",
       .rope = {.pairing = half, .base = 1000000, .dicts = Dicts::One, .yarn_is_longrope = true},
       .attention = {.kv_heads = 8, .windows = Every}},
      {.names = "qwen2",
       .rope = halves,
       .attention = {.kv_heads = 32, .windows = AfterFirstSwitched, .window = 4096},
       .file = {.sizes = {4096, 32, 32, 32768}}},
      {.names = "qwen2_moe",
       .rope = halves,
       .attention = {.kv_heads = 16, .windows = ListedSwitched, .window = 4096}},
      {.names = "qwen3",
       .rope = halves,
       .attention =
           {.head_dim = 128, .kv_heads = 32, .windows = AfterFirstSwitched, .window = 4096}},
      {.names = "qwen3_moe",
       .rope = halves,
       .attention = {.kv_heads = 4, .windows = EverySwitched, .window = 4096}},
      {.names = "qwen3_omni_moe_talker_code_predictor",
       .rope = {.pairing = half, .base = 0},
       .attention = {.head_dim = 128, .kv_heads = 8, .windows = AfterFirst},
       .file = {.sizes = {1024, 16, 5, 32768}}},
      // vllm, solar.py (00bd149), which has no window; upstage's own code was not found.
      {.names = "solar", .rope = halves, .attention = {.kv_heads = same, .windows = Unknown}},
      {.names = "starcoder2", .rope = halves, .attention = {.kv_heads = 2, .windows = Every}},
      {.names = "transformer",
       .rope = {.pairing = half, .dicts = Dicts::One},
       .attention = {.kv_heads = same, .windows = Every},
       .file = {.key_aliases = "num_heads=num_attention_heads num_kv_heads=num_key_value_heads "
                               "window_size=sliding_window"}},
      {.names = "vaultgemma",
       .rope = halves,
       .attention = {.head_dim = 256, .kv_heads = 4, .windows = Alternate, .window = 4096},
       .scores = {.scale = Scale::QueryScalar, .softcap = 50}},
  });
}();

}  // namespace detail
POSENC_END
