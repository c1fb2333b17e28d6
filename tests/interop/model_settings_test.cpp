// SPDX-License-Identifier: MIT
// Settings of a model: those of a layer, and settings that are rejected.
#include "support/catch.hpp"
#include <posenc/interop/model_settings.hpp>
#include <posenc/interop/presets.hpp>

#include <limits>

namespace model_settings_test {

using Catch::Matchers::Message;
using posenc::ConfigError;
using posenc::ModelSettings;
namespace presets = posenc::presets;

TEST_CASE("ModelSettings: gives the settings of a layer", "[interop]") {
  const ModelSettings gemma = presets::model("gemma3_4b");
  CHECK(rotary_of_layer(gemma, 0) == &rotary(gemma, "sliding_attention"));
  CHECK(rotary_of_layer(gemma, 5) == &rotary(gemma, "full_attention"));
  CHECK_THROWS_MATCHES(rotary(gemma), ConfigError,
                       Message("posenc::rotary: pass the type of layer, one of 'full_attention', "
                               "'sliding_attention'"));
  CHECK_THROWS_MATCHES(
      rotary(gemma, "linear_attention"), ConfigError,
      Message("posenc::rotary: no rotary layers of the type 'linear_attention' but "
              "'full_attention', 'sliding_attention'"));
  CHECK_THROWS_MATCHES(
      rotary_of_layer(gemma, 34), ConfigError,
      Message(
          "posenc::rotary_of_layer: the types of 34 layers are known, but not those of layer 34"));
  CHECK_THROWS_MATCHES(
      rotary_of_layer(gemma, -1), ConfigError,
      Message("posenc::rotary_of_layer: the layer must not be negative but is -1"));

  ModelSettings some = presets::model("llama3_8b");
  some.layers_without_rotary = {3, 7};
  CHECK(rotary_of_layer(some, 3) == nullptr);
  CHECK(rotary_of_layer(some, 4) == &rotary(some));

  CHECK_THROWS_MATCHES(validate(ModelSettings{}), ConfigError,
                       Message("posenc::ModelSettings: layers must be set"));
  CHECK_THROWS_MATCHES(softmax_scale(ModelSettings{}), ConfigError,
                       Message("posenc::softmax_scale: layers must not be empty"));
}

TEST_CASE("ModelSettings: sizes of settings are checked", "[interop]") {
  ModelSettings valid = presets::model("llama3_8b");
  valid.layer_count = 4;
  CHECK_NOTHROW(validate(valid));
  const auto rejects = [&](auto&& change) {
    ModelSettings model = valid;
    change(model);
    CHECK_THROWS_AS(validate(model), ConfigError);
  };
  rejects([](ModelSettings& model) { model.hidden_size = 0; });
  rejects([](ModelSettings& model) { model.vocabulary_size = -1; });
  rejects([](ModelSettings& model) { model.intermediate_sizes = {-1}; });
  rejects([](ModelSettings& model) { model.norm_epsilon = 0; });
  ModelSettings model = valid;
  model.intermediate_sizes = {1, 2, 3, 4};
  CHECK_NOTHROW(validate(model));
  model.intermediate_sizes = {1, 2};
  CHECK_THROWS_MATCHES(validate(model), ConfigError,
                       Message("posenc::ModelSettings: layer_count is 4 but there are "
                               "intermediate_sizes of 2 layers"));
  model = valid;
  model.query_temperature = {.scale = std::numeric_limits<double>::infinity(), .length = 8};
  CHECK_THROWS_MATCHES(validate(model), ConfigError,
                       Message("posenc::ModelSettings: the scale of query_temperature must be "
                               "finite but is inf"));
}

}  // namespace model_settings_test
