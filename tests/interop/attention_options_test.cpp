// SPDX-License-Identifier: MIT
// AttentionOptions of a model's layer, and layers that options cannot express.
#include "support/catch.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/presets.hpp>
#include <posenc/tensor/eigen.hpp>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace attention_options_test {

using Catch::Matchers::Message;
using posenc::attention_options;
using posenc::ConfigError;
using posenc::LayerKind;
using posenc::LayerWindow;
using posenc::ModelSettings;
using posenc::WindowKind;

/// Returns a model of one layer with 4 query heads, 2 KV heads and no mask.
ModelSettings model() {
  ModelSettings llama = posenc::presets::model("llama3_8b");
  llama.layer_count = 1;
  llama.attention = {{.kind = LayerKind::Global,
                      .heads = 4,
                      .kv_heads = 2,
                      .head_dim = 128,
                      .value_dim = 128,
                      .window = LayerWindow{},
                      .sinks = false}};
  return llama;
}

ModelSettings with_window(WindowKind kind, posenc::Index size) {
  ModelSettings llama = model();
  llama.attention[0].window = LayerWindow{kind, size};
  return llama;
}

void check_rejected(const ModelSettings& of, const std::string& message) {
  CHECK_THROWS_MATCHES(attention_options<float>(of, 0), ConfigError,
                       Message("posenc::attention_options: " + message));
}

TEST_CASE("attention_options: have the scale, the cap and the window of the layer", "[interop]") {
  const auto plain = attention_options<float>(model(), 0);
  CHECK(plain.scale == 1 / std::sqrt(128.0));
  CHECK(plain.softmax_scale_multiplier == 1);
  CHECK(plain.softcap == 0);
  CHECK(plain.window.left == -1);
  CHECK(plain.window.right == -1);
  CHECK(plain.causal == posenc::Causal::Unspecified);
  CHECK(plain.sinks.empty());

  auto capped = with_window(WindowKind::Sliding, 512);
  capped.softmax_scale = 0.0625;
  capped.softcap = 50;
  const auto gemma = attention_options<float>(capped, 0);
  CHECK(gemma.scale == 0.0625);
  CHECK(gemma.softcap == 50);
  CHECK(gemma.softcap_order == posenc::SoftcapOrder::BeforeBias);
  CHECK(gemma.window.left == 511);
  CHECK(gemma.window.right == 0);

  const auto encoder = attention_options<float>(with_window(WindowKind::BothSides, 128), 0);
  CHECK(encoder.window.left == 64);
  CHECK(encoder.window.right == 64);
}

TEST_CASE("attention_options: scale times multiplier is the whole scale", "[interop]") {
  ModelSettings deepseek = posenc::presets::model("deepseek_v3");
  deepseek.attention = {{.kind = LayerKind::Global, .window = LayerWindow{}}};
  const auto options = attention_options<float>(deepseek, 60);
  CHECK(options.scale == 1 / std::sqrt(192.0));
  CHECK(*options.scale * options.softmax_scale_multiplier == softmax_scale(deepseek));
}

TEST_CASE("attention_options: layers without rotation have the scale of their own head",
          "[interop]") {
  ModelSettings still = model();
  still.layers_without_rotary = {0};
  still.attention[0].head_dim = 64;
  CHECK(attention_options<float>(still, 0).scale == 0.125);
  still.attention[0].head_dim.reset();
  check_rejected(still, "the file does not define the head_dim of layer 0");
}

TEST_CASE("attention_options: sinks are the weights', and are asked for", "[interop]") {
  const std::vector<float> four(4, 1.0F), three(3, 1.0F);
  ModelSettings oss = model();
  oss.attention[0].sinks = true;
  CHECK(attention_options<float>(oss, 0, four).sinks.data() == four.data());
  check_rejected(oss, "layer 0 has sinks in its weights: pass them");
  CHECK_THROWS_MATCHES(
      attention_options<float>(oss, 0, three), ConfigError,
      Message("posenc::attention_options: layer 0 has 4 heads, but 3 sinks are passed"));
  CHECK_THROWS_MATCHES(
      attention_options<float>(model(), 0, four), ConfigError,
      Message("posenc::attention_options: layer 0 has no sinks, but some are passed"));
  oss.attention[0].sinks.reset();  // unknown, so the caller decides
  CHECK(attention_options<float>(oss, 0, four).sinks.size() == 4);
  CHECK(attention_options<float>(oss, 0).sinks.empty());
}

TEST_CASE("attention_options: what options cannot express is rejected by name", "[interop]") {
  check_rejected(
      with_window(WindowKind::Chunked, 8192),
      "layer 0 attends to chunks of 8192 keys, which AttentionOptions cannot express; pass a mask");
  ModelSettings other = model();
  other.attention[0].window.reset();
  check_rejected(other, "the file does not define the window of layer 0");
  other = model();
  other.attention[0].kind = LayerKind::Linear;
  check_rejected(other, "layer 0 has no softmax attention");
  other.attention[0].kind = LayerKind::Compressed;
  check_rejected(
      other,
      "layer 0 has keys that represent several tokens each, which AttentionOptions cannot express");
  other.attention[0].kind = LayerKind::Sparse;
  check_rejected(other,
                 "layer 0 attends to keys that an indexer selects, which AttentionOptions cannot "
                 "express; for texts no longer than its selection, set the layer's kind to Global");
  other = model();
  other.attention[0].output_inverse_rotated = true;
  check_rejected(
      other, "layer 0 undoes the rotation of its output, which AttentionOptions cannot express");
  other = model();
  other.query_temperature = posenc::QueryTemperature{.scale = 0.1, .length = 8192};
  auto options = attention_options<float>(other, 0);
  CHECK(options.temperature_of == posenc::TemperatureOf::ScaledScores);
  CHECK(options.temperature(8192) == 1 + 0.1 * std::log(2.0));
  other.query_temperature->only_without_rotary = true;
  options = attention_options<float>(other, 0);
  CHECK(options.temperature == nullptr);
  CHECK_THROWS_MATCHES(attention_options<float>(model(), 1), ConfigError,
                       Message("posenc::attention_of_layer: the layer must be one of 1 but is 1"));
}

TEST_CASE("attention_options: attention takes the options of a layer", "[interop]") {
  using Heads = Eigen::Tensor<float, 4, Eigen::RowMajor>;
  Heads q(1, 6, 4, 128), k(1, 6, 2, 128), v(1, 6, 2, 128), narrow(1, 6, 4, 128), all(1, 6, 4, 128);
  q.setRandom(), k.setRandom(), v.setRandom();
  const auto attend = [&](const ModelSettings& of, Heads& out) {
    auto options = attention_options<float>(of, 0);
    options.causal = posenc::Causal::TopLeft;
    posenc::attention(posenc::bshd(std::as_const(q)), posenc::bshd(std::as_const(k)),
                      posenc::bshd(std::as_const(v)), posenc::bshd(out), options);
  };
  attend(model(), all);
  attend(with_window(WindowKind::Sliding, 1), narrow);
  for (posenc::Index head = 0; head < 4; ++head) {
    CHECK(narrow(0, 5, head, 7) == v(0, 5, head / 2, 7));  // each token sees only itself
    CHECK(all(0, 5, head, 7) != narrow(0, 5, head, 7));
  }
}

}  // namespace attention_options_test
