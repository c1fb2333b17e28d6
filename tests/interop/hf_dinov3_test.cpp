// SPDX-License-Identifier: MIT
// DINOv3's config.json has two axes regardless of its other keys.
#include "support/catch.hpp"
#include <posenc/interop/dinov3_grid.hpp>
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/vision_axes.hpp>

#include <nlohmann/json.hpp>

#include <string>
#include <utility>
#include <vector>

namespace hf_dinov3_test {

using Catch::Matchers::Message;
using nlohmann::json;
using posenc::ConfigError;
using posenc::read_hf_config;

namespace {

json config(const json& more = json::object()) {
  json result = {
      {"model_type", "dinov3_vit"}, {"hidden_size", 768},       {"num_attention_heads", 12},
      {"num_hidden_layers", 12},    {"image_size", 224},        {"patch_size", 16},
      {"num_channels", 3},          {"num_register_tokens", 4}, {"pos_embed_rescale", 2.0},
      {"layerscale_value", 1.0},    {"key_bias", false},        {"rope_theta", 100.0}};
  result.update(more);
  return result;
}

const std::string refusal =
    "posenc::read_hf_config: a 'dinov3_vit' must rotate all channels of a head, whose number is "
    "divisible by 4, and have no scaling, but rotates ";

void check_rejected(const json& more, const std::string& message) {
  CHECK_THROWS_MATCHES(read_hf_config(config(more)), ConfigError, Message(message));
}

}  // namespace

TEST_CASE("read_hf_config of DINOv3: rotates by rows and columns", "[interop][dinov3]") {
  const auto model = read_hf_config(config());
  const auto& settings = rotary(model);
  CHECK(settings.pairing == posenc::PairingKind::HalfRotate);
  CHECK(settings.head_dim == 64);
  CHECK(settings.axes == posenc::PairAxes::sections({16, 16}));
  const auto own = posenc::dinov3({.head_dim = 64, .base = 100});
  CHECK(frequencies(settings) == own.frequencies);
  CHECK(softmax_scale(model) == 0.125);
  CHECK(model.layer_count == 12);
  const auto& attention = attention_of_layer(model, 7);
  CHECK(attention.kind == posenc::LayerKind::Global);
  CHECK(attention.heads == 12);
  CHECK(attention.kv_heads == 12);
  CHECK(attention.window == posenc::LayerWindow{});
  CHECK_FALSE(model.query_temperature);

  // The rope accepts patch positions only.
  const auto rope = posenc::rope(model);
  CHECK(rope.axis_count() == 2);
  std::vector<float> x(64 * 9, 0.5f);
  const posenc::HeadsView<float> view{x.data(), 1, 9, 1, 64, 64 * 9, 64, 64};
  rope.rotate(view, posenc::dinov3_grid({.rows = 2, .cols = 2, .prefix_tokens = 5},
                                        posenc::PatchNormalization::Separate));
  CHECK(x[0] == 0.5f);
  CHECK(x[5 * 64] == -0.5f);  // half a turn
  CHECK_THROWS_AS(rope.rotate(view, posenc::Positions::range(0, 9)), posenc::ShapeError);
}

TEST_CASE("read_hf_config of DINOv3: the class has a base and an augmentation by default",
          "[interop][dinov3]") {
  json file = config();
  for (const char* key : {"rope_theta", "pos_embed_rescale"}) file.erase(key);
  CHECK(frequencies(rotary(read_hf_config(file))) == frequencies(rotary(read_hf_config(config()))));
  const auto wide = read_hf_config(config({{"hidden_size", 4096},
                                           {"num_attention_heads", 32},
                                           {"rope_theta", 50.0},
                                           {"pos_embed_shift", nullptr},
                                           {"pos_embed_jitter", 1.5}}));
  CHECK(frequencies(rotary(wide)) == posenc::dinov3({.head_dim = 128, .base = 50}).frequencies);
  const json newer = {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 100.0}}}};
  CHECK(rope(read_hf_config(config(newer))).axis_count() == 2);
}

TEST_CASE(
    "read_hf_config of DINOv3: settings that no code knows are rejected, never read with one axis",
    "[interop][dinov3][errors]") {
  check_rejected({{"hidden_size", 792}}, refusal + "66 channels of 66");
  check_rejected({{"partial_rotary_factor", 0.5}}, refusal + "32 channels of 64");
  check_rejected({{"rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}}},
                 refusal + "64 channels of 64");
  check_rejected(
      {{"rope_scaling",
        {{"rope_type", "default"}, {"mrope_section", {16, 8, 8}}, {"mrope_interleaved", false}}}},
      refusal + "64 channels of 64");
  check_rejected(
      {{"pos_embed_rescale", "much"}},
      "posenc::read_hf_config: 'pos_embed_rescale' in the configuration must be a finite number");
  check_rejected(
      {{"pos_embed_normalize", "min"}},
      "posenc::read_hf_config: 'pos_embed_normalize' in the configuration is unknown, or has "
      "no effect with the other settings; remove it if it changes neither positions nor scores");
  // The pairing depends on the weights, the axes do not change.
  const auto permuted = read_hf_config(config(), {.pairing = posenc::PairingKind::Interleaved});
  CHECK(rope(permuted).axis_count() == 2);
  // It is not a plain rotary model either, if the type is missing or another one.
  for (const char* type : {"", "dinov3_vit_of_mine"}) {
    json nameless = config({{"model_type", type}});
    if (*type == '\0') nameless.erase("model_type");
    CHECK_THROWS_AS(read_hf_config(nameless, {.pairing = posenc::PairingKind::HalfRotate}),
                    ConfigError);
  }
}

}  // namespace hf_dinov3_test
