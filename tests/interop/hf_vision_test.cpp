// SPDX-License-Identifier: MIT
// Vision tower beside a text model: its settings, and unsupported towers, which do not affect the
// text model.
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/vision_axes.hpp>
#include <posenc/tensor/grid_positions.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <string>
#include <vector>

namespace hf_vision_test {

using nlohmann::json;
using posenc::ClassToken;
using posenc::ConfigError;
using posenc::Index;
using posenc::PatchTable;
using posenc::read_hf_config;
using posenc::VisionRotary;
using posenc::VisionRotaryForm;
using posenc::VisionSettings;

namespace {

/// Reads the tower of a model.
VisionSettings read(const json& vision, const char* model_type = "some_model") {
  const json config = {{"model_type", model_type},
                       {"text_config",
                        {{"model_type", "llama"},
                         {"hidden_size", 4096},
                         {"num_attention_heads", 32},
                         {"num_hidden_layers", 2}}},
                       {"vision_config", vision}};
  const auto model = read_hf_config(config);
  CHECK(model.model_type == "llama");
  REQUIRE(model.vision.has_value());
  return *model.vision;
}

std::string refusal(const json& vision) { return read(vision).refused; }

json siglip(const json& more = json::object()) {
  json vision = {{"model_type", "siglip_vision_model"},
                 {"hidden_size", 1152},
                 {"num_attention_heads", 16},
                 {"num_hidden_layers", 27},
                 {"image_size", 896},
                 {"patch_size", 14}};
  vision.update(more);
  return vision;
}

/// Returns the tower's rotation of a vector that is 1 in channel `from` and 0 elsewhere.
std::vector<double> rotated(const VisionSettings& tower, Index from, const posenc::Positions& at) {
  const Index dim = *tower.attention.head_dim;
  std::vector<double> x(static_cast<std::size_t>(dim));
  x[static_cast<std::size_t>(from)] = 1;
  posenc::rope(tower).rotate(posenc::HeadsView<double>{x.data(), 1, 1, 1, dim}, at);
  return x;
}

posenc::Positions position(double first, double second) {
  const std::vector<double> a{first}, b{second};
  return posenc::Positions::axes(
      std::array{posenc::Positions::real(a), posenc::Positions::real(b)});
}

}  // namespace

TEST_CASE("read_hf_config vision: a model without a vision tower has none", "[interop][vision]") {
  CHECK_FALSE(read_hf_config(json{{"model_type", "llama"}, {"head_dim", 64}}).vision);
}

TEST_CASE("read_hf_config vision: towers with a table of learned positions", "[interop][vision]") {
  const auto gemma3 = read(siglip());
  CHECK(gemma3.refused.empty());
  CHECK(gemma3.model_type == "siglip_vision_model");
  CHECK(gemma3.layer_count == 27);
  CHECK(gemma3.attention.heads == 16);
  CHECK(gemma3.attention.head_dim == 72);
  CHECK(gemma3.patch_size == 14);
  CHECK(gemma3.table == PatchTable{.rows = 64, .cols = 64});
  CHECK_FALSE(gemma3.rotary);
  CHECK(read({{"model_type", "siglip_vision_model"}}).table == PatchTable{.rows = 14, .cols = 14});

  const auto clip = read({{"model_type", "clip_vision_model"},
                          {"hidden_size", 1024},
                          {"num_attention_heads", 16},
                          {"num_hidden_layers", 24},
                          {"image_size", 336},
                          {"patch_size", 14},
                          {"projection_dim", 768}});
  CHECK(clip.table == PatchTable{.rows = 24, .cols = 24, .class_token = ClassToken::First});
  const auto intern = read({{"model_type", "internvl_vision"},
                            {"image_size", {448, 448}},
                            {"patch_size", {14, 14}},
                            {"use_absolute_position_embeddings", true}});
  CHECK(intern.table == PatchTable{.rows = 32, .cols = 32, .class_token = ClassToken::First});
  CHECK(intern.attention.head_dim == 64);
  CHECK_FALSE(
      read({{"model_type", "internvl_vision"}, {"use_absolute_position_embeddings", false}}).table);
  const auto lfm = read({{"model_type", "siglip2_vision_model"},
                         {"num_patches", 256},
                         {"hidden_size", 1152},
                         {"num_attention_heads", 16},
                         {"num_hidden_layers", 27},
                         {"patch_size", 16}});
  CHECK(lfm.table == PatchTable{.rows = 16, .cols = 16});
}

TEST_CASE("read_hf_config vision: Qwen's towers rotate in merge blocks", "[interop][vision]") {
  // Qwen2-VL has the text model's keys beside vision_config, whose type may be absent.
  const json qwen2 = {{"model_type", "qwen2_vl"},
                      {"hidden_size", 1536},
                      {"num_attention_heads", 12},
                      {"num_hidden_layers", 28},
                      {"rope_scaling", {{"type", "mrope"}, {"mrope_section", {16, 24, 24}}}},
                      {"vision_config",
                       {{"depth", 32},
                        {"embed_dim", 1280},
                        {"num_heads", 16},
                        {"hidden_size", 1536},
                        {"patch_size", 14},
                        {"spatial_merge_size", 2}}}};
  const auto tower = *read_hf_config(qwen2).vision;
  CHECK(tower.refused.empty());
  CHECK(tower.model_type == "qwen2_vl");
  CHECK(tower.layer_count == 32);
  CHECK(tower.attention.head_dim == 80);
  CHECK(tower.merge == 2);
  CHECK(tower.rotary == VisionRotary{VisionRotaryForm::Qwen2Vl, 10000});
  CHECK_FALSE(tower.table);
  CHECK(tower.window == 0);
  // Row 1, column 2, with 20 pairs each. The first pair of either axis has frequency 1.
  const auto row = rotated(tower, 0, position(1, 2)), column = rotated(tower, 20, position(1, 2));
  CHECK(row[40] == Approx(std::sin(1)));
  CHECK(column[60] == Approx(std::sin(2)));

  const auto windowed = read({{"model_type", "qwen2_5_vl"},
                              {"hidden_size", 1280},
                              {"window_size", 112},
                              {"fullatt_block_indexes", {31, 7, 15, 23}}});
  CHECK(windowed.window == 8);
  CHECK(windowed.layers_without_window == std::vector<Index>{7, 15, 23, 31});
  CHECK(read({{"model_type", "qwen2_5_vl_vision"}}).refused.empty());

  for (const char* type : {"qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"}) {
    const auto qwen3 = read({{"depth", 24},
                             {"hidden_size", 1024},
                             {"num_heads", 16},
                             {"model_type", type},
                             {"num_position_embeddings", 2304},
                             {"patch_size", 16},
                             {"deepstack_visual_indexes", {5, 11, 17}}});
    CHECK(qwen3.table == PatchTable{.rows = 48, .cols = 48});
    CHECK(qwen3.rotary == VisionRotary{VisionRotaryForm::Qwen2Vl, 10000});
    CHECK(qwen3.attention.head_dim == 64);
  }
}

TEST_CASE("read_hf_config vision: towers that rotate in other ways", "[interop][vision]") {
  const auto llama4 = read({{"model_type", "llama4_vision_model"},
                            {"hidden_size", 1408},
                            {"image_size", 336},
                            {"patch_size", 14},
                            {"rope_theta", 10000}});
  CHECK(llama4.table == PatchTable{.rows = 24, .cols = 24, .class_token = ClassToken::Last});
  CHECK(llama4.rotary == VisionRotary{VisionRotaryForm::Llama4, 10000});
  CHECK(llama4.layer_count == 34);
  // Interleaved: 22 pairs for the column, 22 for the row.
  CHECK(rotated(llama4, 0, position(1, 2))[1] == Approx(std::sin(1)));
  CHECK(rotated(llama4, 44, position(1, 2))[45] == Approx(std::sin(2)));

  const auto pixtral =
      read({{"model_type", "pixtral"},
            {"hidden_size", 128},
            {"num_attention_heads", 16},
            {"rope_parameters", {{"rope_theta", 10000.0}, {"rope_type", "default"}}}});
  CHECK(pixtral.rotary == VisionRotary{VisionRotaryForm::Pixtral, 10000});
  CHECK_FALSE(pixtral.table);
  // Head of 8 channels: frequencies 1, 0.1, 0.01, 0.001, of which rows have the first and the
  // third.
  const posenc::AxialFrequencies by_hand = posenc::pixtral_vision({.head_dim = 8, .base = 10000});
  CHECK(rotated(pixtral, 0, position(1, 2))[4] == Approx(std::sin(1)));
  CHECK(rotated(pixtral, 1, position(1, 2))[5] == Approx(std::sin(0.01)));
  CHECK(rotated(pixtral, 2, position(1, 2))[6] == Approx(std::sin(0.2)));
  CHECK(rotated(pixtral, 3, position(1, 2))[7] == Approx(std::sin(0.002)));
  CHECK(by_hand.axes.axis(1) == 0);
  CHECK(by_hand.axes.axis(2) == 1);
  CHECK(read({{"model_type", "pixtral"}}).attention.head_dim == 64);

  const auto gemma4 =
      read({{"model_type", "gemma4_vision"},
            {"hidden_size", 768},
            {"head_dim", 64},
            {"global_head_dim", 64},
            {"num_attention_heads", 12},
            {"num_key_value_heads", 12},
            {"position_embedding_size", 10240},
            {"max_position_embeddings", 131072},
            {"rope_parameters", {{"rope_theta", 100.0}, {"rope_type", "default"}}}});
  CHECK(gemma4.table == PatchTable{.rows = 10240, .cols = 10240, .sum_of_axes = true});
  CHECK(gemma4.softmax_scale == 1);
  CHECK(gemma4.rotary == VisionRotary{VisionRotaryForm::Gemma4, 100});
  // 16 pairs for the column in one half of the head, 16 for the row in the other.
  const auto by_column = position(1, 0), by_row = position(0, 1);
  CHECK(rotated(gemma4, 1, by_column)[17] == Approx(std::sin(.7498942093)).epsilon(1e-9));
  CHECK(rotated(gemma4, 15, by_column)[31] == Approx(std::sin(.01333521432)).epsilon(1e-9));
  CHECK(rotated(gemma4, 33, by_column)[33] == 1);
  CHECK(rotated(gemma4, 33, by_row)[49] == Approx(std::sin(.7498942093)).epsilon(1e-9));
}

TEST_CASE("read_hf_config vision: a tower that is not read says why, and the text model is read",
          "[interop][vision]") {
  CHECK(refusal({{"model_type", "mllama_vision_model"}}) ==
        "it has learned positions of patches and of tiles, mixed by a gate");
  CHECK(refusal({{"model_type", "some_vision_model"}}) == "its model_type is unknown");
  CHECK(refusal({{"hidden_size", 1152}}) == "its model_type is unknown");
  CHECK(refusal(json::array()) == "its model_type is unknown");
  CHECK(
      read({{"model_type", ""}, {"pos_emb_type", "divided_fixed"}}, "kimi_k25").refused ==
      "it has learned positions of rows, columns and frames, and a rotation by both axes in turn");
  // A key that may affect positions or scores is not ignored.
  CHECK(refusal(siglip({{"position_embedding_type", "rope"}})) ==
        "'position_embedding_type' in vision_config is unknown, or has no effect with the other "
        "settings; remove it if it changes neither positions nor scores");
  CHECK(refusal(siglip({{"num_attention_heads", 0}})) ==
        "'num_attention_heads' in vision_config must lie between 1 and 1048576");
  CHECK(refusal(siglip({{"image_size", {896, 448}}})) ==
        "'image_size' in vision_config must be a positive number or a list of two equal ones");
  CHECK(refusal(siglip({{"image_size", 7}})) ==
        "'image_size' in vision_config is less than patch_size");
  CHECK(refusal(siglip({{"head_dim", 64}})) ==
        "'head_dim' in vision_config is not the width of a head, 72");
  CHECK(refusal({{"model_type", "qwen3_vl"}, {"num_position_embeddings", 2305}}) ==
        "'num_position_embeddings' in vision_config is not a square number");
  CHECK(refusal({{"model_type", "qwen2_5_vl"}, {"window_size", 13}}) ==
        "'window_size' in vision_config is less than a block of patches");
  CHECK(refusal({{"model_type", "pixtral"}, {"rope_parameters", {{"rope_type", "yarn"}}}}) ==
        "'rope_type' in rope_parameters of vision_config must be default in a vision tower");
  CHECK(refusal({{"model_type", "pixtral"}, {"hidden_size", 96}}) ==
        "head_dim must be divisible by 4 and at least 4 but is 6");
}

TEST_CASE("attention_options: the attention of a tower", "[interop][vision]") {
  const auto gemma3 = read(siglip());
  const auto options = posenc::attention_options<float>(gemma3, 3);
  CHECK(options.scale == 1 / std::sqrt(72.0));
  CHECK(options.causal == posenc::Causal::No);
  CHECK(posenc::attention_options<float>(read({{"model_type", "gemma4_vision"}}), 0).scale == 1.0);
  const json axial = {{"rope_type", "axial"}, {"rope_theta", 100.0}};
  CHECK(read({{"model_type", "gemma4_vision"}, {"rope_parameters", axial}}).refused.empty());
  CHECK(read({{"model_type", "qwen3_vl"}, {"rope_parameters", axial}}).rotary->base == 100);
  CHECK(refusal({{"model_type", "llama4_vision_model"}, {"rope_parameters", axial}}) ==
        "'rope_type' in rope_parameters of vision_config must be default in a vision tower");
  const auto qwen = read({{"model_type", "qwen2_5_vl"}});
  CHECK_NOTHROW(posenc::attention_options<float>(qwen, 31));
  const auto options_error = [](const VisionSettings& tower, Index layer) {
    return support::message_of<ConfigError>(
        [&] { posenc::attention_options<float>(tower, layer); });
  };
  CHECK(options_error(qwen, 0) ==
        "posenc::attention_options: layer 0 attends within windows of 8 by 8 patches, which "
        "AttentionOptions cannot express; pass each window as a separate sequence");
  CHECK(options_error(qwen, 32) ==
        "posenc::attention_options: the layer must be one of 32 but is 32");
  CHECK(
      options_error(read({{"model_type", "mllama_vision_model"}}), 0) ==
      "posenc::attention_options: the vision tower 'mllama_vision_model' is not supported: it has "
      "learned "
      "positions of patches and of tiles, mixed by a gate");
  CHECK(support::message_of<ConfigError>([&] { posenc::rope(gemma3); }) ==
        "posenc::rope: the vision tower 'siglip_vision_model' has no rotary encoding");
}

}  // namespace hf_vision_test
