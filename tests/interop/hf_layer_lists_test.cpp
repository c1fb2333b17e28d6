// SPDX-License-Identifier: MIT
// Layers given by blocks and by lists of indices, in the forms of single classes.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <variant>
#include <vector>

namespace hf_layer_lists_test {

using nlohmann::json;
using posenc::Index;
using posenc::LayerKind;
using posenc::LayerWindow;
using posenc::PairingKind;
using posenc::read_hf_config;
using posenc::Unscaled;
using posenc::WindowKind;
using support::hf::check_rejected;
using support::hf::config;

TEST_CASE("read_hf_config keys: layers given by blocks and lists of indices", "[interop]") {
  const auto block = [](const json& attention) { return json{{"attention", attention}}; };
  const json none = {{"n_heads_in_group", nullptr}, {"no_op", true}, {"window_length", nullptr}};
  json nas = config("nemotron-nas",
                    {{"num_key_value_heads", nullptr},
                     {"block_configs",
                      {block({{"n_heads_in_group", 8}, {"unshifted_sink", false}}), block(none),
                       block({{"replace_with_linear", true}}), block({{"n_heads_in_group", 4}})}}});
  const auto model = read_hf_config(nas);
  CHECK(rotary_of_layer(model, 0) != nullptr);
  CHECK(rotary_of_layer(model, 1) == nullptr);
  CHECK(attention_of_layer(model, 1).kind == LayerKind::None);
  CHECK(attention_of_layer(model, 2).kind == LayerKind::None);
  CHECK(attention_of_layer(model, 0).kv_heads == 4);
  CHECK(attention_of_layer(model, 3).kv_heads == 8);
  nas["block_configs"][0]["attention"]["window_length"] = 512;
  CHECK_THROWS_AS(read_hf_config(nas), posenc::ConfigError);
  nas["block_configs"][0]["attention"] = {{"n_heads_in_group", 5}};
  check_rejected(
      nas,
      "'block_configs' in the configuration has groups that do not divide the number of heads, "
      "32");
  nas["block_configs"] = json::array();
  check_rejected(
      nas, "'block_configs' in the configuration must be a list with an entry for each layer");

  const auto bamba = read_hf_config(
      config("bamba", {{"attn_layer_indices", {2}}, {"attn_rotary_emb", 64}, {"z_loss", 0}}));
  CHECK(rotary_of_layer(bamba, 0) == nullptr);
  CHECK(attention_of_layer(bamba, 0).kind == LayerKind::Linear);
  CHECK(rotary_dim(*rotary_of_layer(bamba, 2)) == 64);
  CHECK(attention_of_layer(bamba, 2).kv_heads == 8);

  // Before the first layer of experts, layers that see all keys have a rotary encoding.
  const json cohere =
      config("cohere2_moe", {{"num_hidden_layers", 9}, {"first_k_dense_replace", 1}});
  const auto moe = read_hf_config(cohere);
  CHECK(rotary(moe).pairing == PairingKind::Interleaved);
  CHECK(moe.layers_without_rotary == std::vector<Index>{4, 8});
  CHECK(attention_of_layer(moe, 0).kind == LayerKind::Global);
  CHECK(attention_of_layer(moe, 1).window == LayerWindow{WindowKind::Sliding, 4096});
  json other = cohere;
  other["prefix_dense_sliding_window_pattern"] = 4;
  CHECK(attention_of_layer(read_hf_config(other), 0).kind == LayerKind::Sliding);
  CHECK(read_hf_config(other).layers_without_rotary == std::vector<Index>{4, 8});
  json listed = config(
      "cohere2_moe", {{"num_hidden_layers", 3},
                      {"mlp_layer_types", {"dense", "sparse", "sparse"}},
                      {"layer_types", {"full_attention", "sliding_attention", "full_attention"}}});
  CHECK(read_hf_config(listed).layers_without_rotary == std::vector<Index>{2});
  listed["first_k_dense_replace"] = 9;
  CHECK_THROWS_AS(read_hf_config(listed), posenc::ConfigError);

  const auto sparse = read_hf_config(
      config("minimax_m3_vl_text", {{"num_hidden_layers", 2},
                                    {"rotary_dim", 64},
                                    {"sparse_attention_config", {{"sparse_topk_blocks", 16}}},
                                    {"layer_types", {"full_attention", "minimax_m3_sparse"}}}));
  CHECK(rotary_dim(rotary(sparse)) == 64);

  const auto mellum =
      read_hf_config(config("mellum", {{"num_hidden_layers", 2},
                                       {"layer_types", {"full_attention", "sliding_attention"}}}));
  CHECK(std::get<Unscaled>(rotary_of_layer(mellum, 0)->rule).base == 500000);
  CHECK(std::get<Unscaled>(rotary_of_layer(mellum, 1)->rule).base == 10000);
  CHECK(attention_of_layer(mellum, 1).window == LayerWindow{WindowKind::Sliding, 1024});

  // Form in which transformers saves the lists.
  const auto step =
      read_hf_config(config("step3p5", {{"num_hidden_layers", 2},
                                        {"head_dim", 128},
                                        {"num_key_value_heads", 8},
                                        {"num_sliding_attention_heads", 64},
                                        {"sliding_window", 512},
                                        {"layer_types", {"full_attention", "sliding_attention"}},
                                        {"rope_parameters",
                                         {{"full_attention",
                                           {{"rope_type", "llama3"},
                                            {"rope_theta", 5000000.0},
                                            {"partial_rotary_factor", 0.5},
                                            {"factor", 2.0},
                                            {"low_freq_factor", 1.0},
                                            {"high_freq_factor", 32.0},
                                            {"original_max_position_embeddings", 131072}}},
                                          {"sliding_attention", {{"rope_theta", 10000.0}}}}}}));
  CHECK(rotary_dim(*rotary_of_layer(step, 0)) == 64);
  CHECK(rotary_dim(*rotary_of_layer(step, 1)) == 128);
  CHECK(attention_of_layer(step, 1).heads == 64);
  CHECK(attention_of_layer(step, 0).kv_heads == 8);

  const auto exaone = read_hf_config(
      config("exaone4_5_text",
             {{"num_hidden_layers", 4},
              {"layer_types",
               {"sliding_attention", "sliding_attention", "sliding_attention", "full_attention"}},
              {"sliding_window_pattern", "LLLG"},
              {"rope_theta", 1000000.0}}));
  CHECK(rotary_of_layer(exaone, 3) == nullptr);
  CHECK(attention_of_layer(exaone, 0).window == LayerWindow{WindowKind::Sliding, 4096});

  const auto gemma = read_hf_config(config("gemma4_unified_text"));
  CHECK(gemma.softmax_scale == 1.0);
  CHECK(attention_of_layer(gemma, 0).window == LayerWindow{WindowKind::Sliding, 1024});
}

}  // namespace hf_layer_lists_test
