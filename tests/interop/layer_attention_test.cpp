// SPDX-License-Identifier: MIT
// Temperatures of queries, and attention of layers that is rejected.
#include "support/catch.hpp"
#include <posenc/interop/layer_attention.hpp>
#include <posenc/interop/model_settings.hpp>
#include <posenc/interop/presets.hpp>

#include <cmath>
#include <string>

namespace layer_attention_test {

using Catch::Matchers::Message;
using posenc::ConfigError;
using posenc::LayerWindow;
using posenc::WindowKind;

TEST_CASE("temperature of LayerAttention: those of the models", "[interop]") {
  using posenc::QueryTemperature;
  using posenc::QueryTemperatureFormula;
  struct Row {
    QueryTemperature temperature;
    double position, factor;
  };
  const QueryTemperature llama4{.scale = 0.1, .length = 8192, .offset = 1};
  const QueryTemperature ministral{.scale = 0.1, .length = 16384};
  const QueryTemperature qwen{.formula = QueryTemperatureFormula::LogN, .length = 2048};
  const QueryTemperature grok{.formula = QueryTemperatureFormula::LogRatio, .length = 1024};
  for (const auto& [temperature, position, factor] : {Row{llama4, 0, 1},
                                                      Row{llama4, 8190, 1},
                                                      Row{llama4, 8191, 1.069314718},
                                                      Row{llama4, 16383, 1.109861229},
                                                      Row{llama4, 65535, 1.219722458},
                                                      Row{llama4, 1000000, 1.481218436},
                                                      Row{ministral, 16383, 1},
                                                      Row{ministral, 16384, 1.069314718},
                                                      Row{ministral, 32768, 1.109861229},
                                                      Row{ministral, 262143, 1.277258872},
                                                      Row{qwen, 2047, 1},
                                                      Row{qwen, 2048, 1.000064024},
                                                      Row{qwen, 4095, 1.090909091},
                                                      Row{qwen, 8191, 1.181818182},
                                                      Row{qwen, 32766, 1.363632361},
                                                      Row{grok, 0, 1},
                                                      Row{grok, 1024, 1},
                                                      Row{grok, 1025, 1.000140819},
                                                      Row{grok, 2048, 1.1},
                                                      Row{grok, 32768, 1.5}}) {
    CAPTURE(position);
    CHECK(std::abs(temperature(position) - factor) <= 5e-10);
  }
}

TEST_CASE("LayerAttention: invalid settings are rejected", "[interop]") {
  const auto refuse_model = [](const auto& change, const std::string& message) {
    auto model = posenc::presets::model("llama3_8b");
    model.layer_count = 1;
    model.attention = {{.heads = 32, .kv_heads = 8}};
    CHECK_NOTHROW(validate(model));
    change(model);
    CHECK_THROWS_MATCHES(validate(model), ConfigError,
                         Message("posenc::ModelSettings: " + message));
  };
  refuse_model([](auto& m) { m.attention[0].heads = 0; },
               "heads of layer 0 must be from 1 to 1048576 but is 0");
  refuse_model([](auto& m) { m.attention[0].head_dim = 65537; },
               "head_dim of layer 0 must be from 1 to 65536 but is 65537");
  refuse_model([](auto& m) { m.attention[0].kv_heads = 3; },
               "the 32 heads of layer 0 are not a multiple of its 3 kv_heads");
  refuse_model(
      [](auto& m) {
        m.attention[0].window = LayerWindow{WindowKind::Sliding, 0};
      },
      "the window of layer 0 must have a positive size, or 0 if its kind is None, but its size is "
      "0");
  refuse_model([](auto& m) { m.attention.push_back({}); },
               "layer_count is 1 but there is attention of 2 layers");
}

}  // namespace layer_attention_test
