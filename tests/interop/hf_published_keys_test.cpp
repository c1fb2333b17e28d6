// SPDX-License-Identifier: MIT
// Keys of published files whose names only suggest positions or scores: the result is the same
// without them. Keys with harmless names that do have an effect.
#include "interop/hf_file.hpp"
#include "interop/settings.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <string>
#include <utility>
#include <vector>

namespace hf_published_keys_test {

using nlohmann::json;
using posenc::read_hf_config;
using support::hf::config;

/// Model type, required keys of its files, and further keys of published files.
struct File {
  const char* type;
  json needed, more;
};

TEST_CASE("read_hf_config keys: keys of published files that change nothing", "[interop]") {
  const json base = {{"rope_theta", 10000.0}};
  const std::vector<File> files{
      {"arctic", base, {{"parallel_attn_mlp_res", true}, {"use_residual", true}}},
      {"bailing_moe", base, {{"norm_softmax", false}, {"mtp_loss_scaling_factor", 0}}},
      {"ernie4_5_moe",
       base,
       {{"rope_3d", false}, {"moe_layer_interval", 1}, {"freq_allocation", 20}}},
      {"gemma3n_text",
       json::object(),
       {{"altup_correct_scale", true}, {"altup_lr_multiplier", 1.0}, {"laurel_rank", 64}}},
      {"glm_moe_dsa",
       {{"rope_theta", 1000000.0},
        {"rope_interleave", true},
        {"qk_nope_head_dim", 192},
        {"qk_rope_head_dim", 64}},
       {{"index_topk_pattern", "FFSS"}, {"index_topk", 2048}, {"indexer_types", {"full"}}}},
      {"lfm2",
       {{"num_hidden_layers", 2}, {"layer_types", {"conv", "full_attention"}}},
       {{"block_mlp_init_scale", 1.0}, {"block_out_init_scale", 1.0}, {"num_heads", 32}}},
      {"llama",
       base,
       {{"_attn_implementation_autoset", true},
        {"attn_implementation", "sdpa"},
        {"attention_softmax_in_fp32", true},
        {"attention_qkv_bias", false},
        {"attn_proj_bias", true},
        {"head_dim", nullptr},
        {"is_composition", true},
        {"rope_interleaved", false},
        {"rope_traditional", false},
        {"sliding_window_size", -1},
        {"softmax_dtype", "float32"}}},
      {"cohere", {{"rope_theta", 10000}}, {{"rope_traditional", true}}},
      {"mimo_v2_flash", json::object(), {{"attention_projection_layout", "fused_qkv"}}},
      {"minimax_m2",
       {{"rope_theta", 5000000.0}, {"rotary_dim", 64}},
       {{"layernorm_full_attention_beta", 1.0}, {"layernorm_linear_attention_alpha", 1.0}}},
      {"mistral", base, {{"is_composition", true}, {"sliding_window", nullptr}}},
      {"molmo", base, {{"attention_layer_norm", false}, {"use_position_ids", true}}},
      {"modernbert",
       json::object(),
       {{"sparse_prediction", false}, {"sparse_pred_ignore_index", -100}}},
      {"phi3small",
       base,
       {{"blocksparse_block_size", 64},
        {"blocksparse_homo_head_pattern", false},
        {"blocksparse_num_local_blocks", 16},
        {"blocksparse_triton_kernel_block_size", 64},
        {"blocksparse_vert_stride", 8}}},
      {"qwen3_moe", base, {{"decoder_sparse_step", 1}}},
      {"starcoder2",
       base,
       {{"scale_attention_softmax_in_fp32", true},
        {"attention_softmax_in_fp32", true},
        {"scale_attn_weights", true}}},
      {"telechat", base, {{"logn", false}, {"masked_softmax_fusion", true}}},
  };
  for (const File& file : files) {
    INFO(file.type);
    const json without = config(file.type, file.needed);
    json with = without;
    with.update(file.more);
    const auto expected = read_hf_config(without), model = read_hf_config(with);
    if (std::string(file.type) != "mistral") {
      CHECK(attention_of_layer(model, 0).window == attention_of_layer(expected, 0).window);
    }
    CHECK(support::difference(model, expected).empty());
  }
  const json nemotron = config("nemotron", {{"rope_percent", 0.5}, {"rope_percentage", 0.5}});
  CHECK(rotary_dim(rotary(read_hf_config(nemotron))) == 64);
}

TEST_CASE("read_hf_config keys: keys that sound alike and change something", "[interop]") {
  const std::vector<std::pair<const char*, json>> keys{
      {"attention_sink_bias", true},
      {"drope", true},
      {"logn", true},
      {"original_rope", false},
      {"relative_attention_bias", true},
      {"rope_3d", true},
      {"rope_traditional", true},
      {"attention_score_scale", 0.5},
      {"position_bias", true},
      {"position_embedding_xdrope", true},
      {"sparse_config", {{"block_size", 64}}},
      {"sparse_attention_config", {{"block", 64}}},
  };
  for (const auto& [key, value] : keys) {
    INFO(key);
    CHECK_THROWS_AS(read_hf_config(config("llama", {{key, value}})), posenc::ConfigError);
  }
  CHECK_THROWS_AS(
      read_hf_config(config("cohere", {{"rope_theta", 10000}, {"rope_traditional", false}})),
      posenc::ConfigError);
}

TEST_CASE("read_hf_config keys: false is as good as null where a dict or a size may stand",
          "[interop]") {
  const auto model = read_hf_config(
      config("rnd1", {{"rope_theta", 1e6}, {"rope_scaling", false}, {"sliding_window", false}}));
  CHECK(std::get<posenc::Unscaled>(rotary(model).rule).base == 1e6);
  const auto plain = read_hf_config(config("mistral", {{"sliding_window", false}}));
  CHECK(attention_of_layer(plain, 0).window == posenc::LayerWindow{});
}

TEST_CASE("mrope_section: may be given twice if both agree", "[interop]") {
  json file = config("qwen3_omni_moe_text", {{"rope_theta", 1000000},
                                             {"rope_scaling",
                                              {{"interleaved", true},
                                               {"mrope_interleaved", true},
                                               {"mrope_section", {24, 20, 20}},
                                               {"rope_type", "default"},
                                               {"type", "default"}}}});
  CHECK_FALSE(rotary(read_hf_config(file)).axes.plain());
  file["rope_scaling"]["interleaved"] = false;
  CHECK_THROWS_AS(read_hf_config(file), posenc::ConfigError);
}

}  // namespace hf_published_keys_test
