// SPDX-License-Identifier: MIT
// Keys that the classes of transformers 5.24 write into the files that they save.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"

#include <string>
#include <variant>

namespace hf_saved_files_test {

using nlohmann::json;
using posenc::attention_of_layer;
using posenc::read_hf_config;
using posenc::rotary_of_layer;
using support::hf::check_rejected;
using support::hf::config;

namespace {

json gemma4(const json& layers) {
  return config("gemma4_text",
                {{"layer_types",
                  {"sliding_attention", "full_attention", "sliding_attention", "full_attention"}},
                 {"head_dim", 256},
                 {"per_layer_config", layers}});
}

const std::string sizes = "'per_layer_config' in the configuration ";

}  // namespace

TEST_CASE("widths by layer of Gemma 4 are those of global layers", "[interop][hf]") {
  const json wide = {{"head_dim", 384}};
  const auto model = read_hf_config(gemma4({{"1", wide}, {"3", wide}}));
  CHECK(rotary_of_layer(model, 0)->head_dim == 256);
  CHECK(rotary_of_layer(model, 1)->head_dim == 384);
  CHECK(attention_of_layer(model, 1).kv_heads == 4);

  const json grouped = {{"head_dim", 384}, {"num_key_value_heads", 2}};
  const auto shared = read_hf_config(gemma4({{"1", grouped}, {"3", grouped}}));
  CHECK(attention_of_layer(shared, 3).kv_heads == 2);
  CHECK(attention_of_layer(shared, 2).kv_heads == 4);

  // A layer without an entry is as wide as the others.
  const auto alike = read_hf_config(gemma4(json::object()));
  CHECK(rotary_of_layer(alike, 1)->head_dim == 256);

  check_rejected(gemma4(json::array()), sizes + "must map layers to their keys");
  check_rejected(gemma4({{"0", wide}, {"1", wide}, {"3", wide}}),
                 sizes + "has layers that are not global");
  check_rejected(gemma4({{"1", wide}}), sizes + "has global layers that differ");
  check_rejected(gemma4({{"1", wide}, {"3", wide}, {"5", wide}}),
                 sizes + "has layers that the model lacks");
}

TEST_CASE("a rope dict may repeat the length of the file", "[interop][hf]") {
  const json yarn = {{"rope_type", "yarn"},
                     {"rope_theta", 1e6},
                     {"factor", 16.0},
                     {"original_max_position_embeddings", 2048},
                     {"max_position_embeddings", 32768}};
  const auto model = read_hf_config(config("ministral3", {{"rope_parameters", yarn}}));
  CHECK(std::get<posenc::YarnScaling>(rotary(model).rule).original_max_position == 2048);
  json other = yarn;
  other["max_position_embeddings"] = 16384;
  check_rejected(config("ministral3", {{"rope_parameters", other}}),
                 "'max_position_embeddings' in rope_parameters contradicts the one beside the "
                 "dict, which is the one that classes read");
}

TEST_CASE("files of LFM2 may list their attention layers twice", "[interop][hf]") {
  const json types = {"conv", "full_attention", "conv", "full_attention"};
  const auto model =
      read_hf_config(config("lfm2", {{"layer_types", types}, {"full_attn_idxs", {1, 3}}}));
  CHECK(rotary_of_layer(model, 0) == nullptr);
  CHECK(rotary_of_layer(model, 3) != nullptr);
  check_rejected(config("lfm2", {{"layer_types", types}, {"full_attn_idxs", {1}}}),
                 "'full_attn_idxs' in the configuration contradicts layer_types");
}

TEST_CASE("bases whose default differs between releases must be in the file", "[interop][hf]") {
  for (const char* type : {"olmo3", "persimmon"}) {
    INFO(type);
    check_rejected(config(type), "the configuration must have rope_theta");
    CHECK_NOTHROW(read_hf_config(config(type, {{"rope_theta", 10000}})));
  }
}

TEST_CASE("ModernBERT's decoder may repeat its window", "[interop][hf]") {
  const auto window =
      attention_of_layer(read_hf_config(config("modernbert-decoder",
                                               {{"local_attention", 32}, {"sliding_window", 16}})),
                         1)
          .window;
  CHECK(window == posenc::LayerWindow{posenc::WindowKind::Sliding, 16});
  check_rejected(config("modernbert-decoder", {{"sliding_window", 128}}),
                 "'sliding_window' in the configuration must be half of local_attention");
}

TEST_CASE("MiMo V2 rotates a third of a head without a share", "[interop][hf]") {
  const auto model = read_hf_config(config("mimo_v2_flash", {{"head_dim", 192}}));
  CHECK(rotary_dim(model.layers.front().rotary) == 64);
}

}  // namespace hf_saved_files_test
