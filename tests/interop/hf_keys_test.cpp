// SPDX-License-Identifier: MIT
// Keys that may affect positions or scores are never ignored. Other keys are never rejected.
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace hf_keys_test {

using Catch::Matchers::Message;
using nlohmann::json;
using posenc::ConfigError;
using posenc::read_hf_config;

namespace {

json config(const std::string& model_type = "llama", const json& more = json::object()) {
  json result = {{"model_type", model_type},
                 {"hidden_size", 4096},
                 {"num_attention_heads", 32},
                 {"max_position_embeddings", 4096},
                 {"rope_theta", 10000.0}};
  result.update(more);
  return result;
}

void check_rejected(const json& of, const std::string& message) {
  INFO(of.dump());
  CHECK_THROWS_MATCHES(read_hf_config(of), ConfigError,
                       Message("posenc::read_hf_config: " + message));
}

}  // namespace

TEST_CASE("read_hf_config keys: keys that may change positions or scores are rejected by name",
          "[interop]") {
  const std::vector<std::pair<const char*, json>> keys{
      {"use_logn_attn", true},
      {"use_mrope", true},
      {"use_alibi", true},
      {"use_mla", true},
      {"scale_attn_weights", false},
      {"scale_attn_by_inverse_layer_idx", true},
      {"apply_query_key_layer_scaling", true},
      {"attention_multiplier", 0.5},
      {"attention_scale", 0.5},
      {"attn_config", {{"rope", true}}},
      {"softmax_scale", 1.0},
      {"query_pre_attn_scalar", 144},
      {"attention_temperature", 2},
      {"attn_logit_softcapping", 30},
      {"attention_logit_cap", 30},
      {"logit_cap", 30},
      {"key_multiplier", 0.5},
      {"cross_attention_layers", {3}},
      {"full_attention_interval", 4},
      {"hybrid_override_pattern", "M-M*"},
      {"layers_block_type", {"mamba", "attention"}},
      {"attn_layer_period", 8},
      {"no_rope_layers", {1, 0}},
      {"nope_layer_interval", 4},
      {"rope_interleave", true},
      {"rotary_emb_interleaved", true},
      {"rotary_emb_scale_base", 512},
      {"rotary_scaling_factor", 2},
      {"relative_attention_num_buckets", 32},
      {"position_encoding_2d", true},
      {"theta", 500000},
      {"qk_rope_head_dim", 64},
      {"qk_nope_head_dim", 64},
      {"swa_head_dim", 64},
      {"global_head_dim", 512},
      {"attention_head_dim", 64},
      {"compress_ratios", {0, 4}},
      {"linear_attn_config", json::object()},
      {"mla_use_nope", true},
      {"attention_window", 512},
  };
  CHECK_NOTHROW(read_hf_config(config()));
  for (const auto& [key, value] : keys) {
    const std::string end = std::string(key) == "attention_head_dim"
                                ? "has a value that is not supported"
                                : "is unknown, or has no effect with the other settings; remove it "
                                  "if it changes neither positions nor scores";
    check_rejected(config("llama", {{key, value}}),
                   std::string("'") + key + "' in the configuration " + end);
  }
}

TEST_CASE("read_hf_config keys: keys that change neither are accepted", "[interop]") {
  CHECK_NOTHROW(read_hf_config(config("llama", {{"attention_bias", false},
                                                {"attention_dropout", 0.1},
                                                {"attn_pdrop", 0.1},
                                                {"attention_probs_dropout_prob", 0.1},
                                                {"_attn_implementation_autoset", true},
                                                {"use_flash_attention_2", true},
                                                {"sliding_window", 4096},
                                                {"use_sliding_window", true},
                                                {"max_window_layers", 28},
                                                {"final_logit_softcapping", 30.0},
                                                {"routed_scaling_factor", 2.5},
                                                {"embedding_multiplier", 12.0},
                                                {"logits_scaling", 8.0},
                                                {"scale_emb", 12},
                                                {"scale_depth", 1.4},
                                                {"temperature", 0.6},
                                                {"use_qk_norm", true},
                                                {"parallel_attn", true},
                                                {"use_mla", false},
                                                {"mlp_layer_types", {"dense", "sparse"}},
                                                {"moe_layer_interval", 1},
                                                {"v_head_dim", 64},
                                                {"attention_head_dim", 128},
                                                {"use_rotary_pos_emb", true},
                                                {"use_dynamic_ntk", false},
                                                {"use_logn_attn", false},
                                                {"use_mrope", false},
                                                {"scale_attn_weights", true},
                                                {"add_cross_attention", false},
                                                {"cross_attention_hidden_size", nullptr},
                                                {"property", "rope"},
                                                {"time_step_limit", {0, 1}},
                                                {"patch_size", 14},
                                                {"vision_config", {{"rope_theta", 100}}}})));
}

TEST_CASE("read_hf_config keys: lengths under other names are no contradiction", "[interop]") {
  const json vicuna = config("llama", {{"max_sequence_length", 16384},
                                       {"rope_scaling", {{"factor", 4.0}, {"type", "linear"}}}});
  CHECK(read_hf_config(vicuna).trained_length == 4096);
  check_rejected(
      config("llama", {{"n_positions", 2048}}),
      "the configuration contradicts itself: max_position_embeddings is 4096 but n_positions is "
      "2048");
}

TEST_CASE("read_hf_config keys: a text model that is no plain one is recognised", "[interop]") {
  const std::string in = "' in the configuration ";
  const json mla = {{"qk_nope_head_dim", 128}, {"qk_rope_head_dim", 64}};
  const auto deepseek = [&](const char* type, const json& more) {
    json result = config(type, mla);
    result.update(more);
    return result;
  };
  CHECK(rotary(read_hf_config(deepseek("deepseek_v3", {{"head_dim", 64}}))).head_dim == 192);
  check_rejected(deepseek("deepseek_v3", {{"head_dim", 128}}),
                 "'head_dim" + in + "contradicts qk_nope_head_dim and qk_rope_head_dim");
  check_rejected(deepseek("deepseek_v2", {{"use_mla", false}}),
                 "'use_mla" + in + "must be true in a model of this type");
  check_rejected(deepseek("deepseek_v2", {{"rope_interleave", false}}),
                 "'rope_interleave" + in + "is read by no class of this type");
  // Its class puts qk_rope_head_dim into head_dim, regardless of the file's head_dim.
  const json glm = {{"head_dim", 192}, {"rope_interleave", true}, {"rope_theta", 1000000}};
  CHECK(rotary(read_hf_config(deepseek("glm_moe_dsa", glm))).head_dim == 192);
  CHECK(rotary_dim(rotary(read_hf_config(deepseek("glm_moe_dsa", glm)))) == 64);
  json odd = glm;
  odd["head_dim"] = 77;
  CHECK(rotary(read_hf_config(deepseek("glm_moe_dsa", odd))).rotary_offset == 128);
  // Files that transformers 5 writes lack the key.
  CHECK(rotary(read_hf_config(deepseek("glm_moe_dsa", {{"rope_theta", 1000000}}))).pairing ==
        posenc::PairingKind::Interleaved);
  check_rejected(deepseek("glm_moe_dsa", {{"rope_interleave", false}}),
                 "'rope_interleave" + in + "must be true in this model");
  check_rejected(config("baichuan", {{"num_hidden_layers", 40}}),
                 "'num_hidden_layers" + in +
                     "is not 32: of this type, only models of 32 layers have a rotary encoding");
  CHECK_NOTHROW(read_hf_config(config("baichuan", {{"num_hidden_layers", 32}})));
  check_rejected(config("minimax_m2", {{"rotary_dim", 64}, {"attn_type_list", {1, 0}}}),
                 "'attn_type_list" + in + "has layers that have no softmax");
  check_rejected(config("minimax_m2"), "the configuration must have rotary_dim");
  check_rejected(config("chatglm", {{"inner_hidden_size", 16384}, {"position_encoding_2d", false}}),
                 "'position_encoding_2d" + in + "is false, which is not supported in this model");
}

TEST_CASE("read_hf_config keys: rotary keys beside the text model's part are read", "[interop]") {
  json outer = {{"model_type", "llava"}, {"text_config", config()}, {"rope_theta", 500000}};
  check_rejected(outer, "'rope_theta' in the configuration contradicts text_config");
  outer["rope_theta"] = 10000.0;
  CHECK_NOTHROW(read_hf_config(outer));
  const json janus = {{"model_type", "multi_modality"}, {"language_config", config()}};
  CHECK(rotary(read_hf_config(janus)).head_dim == 128);
}

}  // namespace hf_keys_test
