// SPDX-License-Identifier: MIT
// The base of each type of layers: in dicts, beside them, and in lists with one per layer.
#include "interop/hf_file.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <string>
#include <variant>
#include <vector>

namespace hf_bases_test {

using nlohmann::json;
using posenc::Index;
using posenc::LayerWindow;
using posenc::read_hf_config;
using posenc::Unscaled;
using posenc::WindowKind;
using posenc::YarnScaling;
using support::hf::check_rejected;
using support::hf::config;
using support::hf::with;

double base_of(const posenc::RotarySettings& settings) {
  return std::get<Unscaled>(settings.rule).base;
}

TEST_CASE("read_hf_config: a base for each layer, and none", "[interop]") {
  const json granite = config("granite_swa", {{"attention_multiplier", 0.0078125},
                                              {"num_key_value_heads", 8},
                                              {"sliding_window", 128},
                                              {"layer_rope_theta", {0, 1e4, 1e4, 500.0, 1e6}},
                                              {"num_hidden_layers", 5},
                                              {"rope_parameters", {{"rope_theta", 1e4}}}});
  const auto model = read_hf_config(granite);
  CHECK(model.layers_without_rotary == std::vector<Index>{0});
  CHECK(base_of(*rotary_of_layer(model, 1)) == 1e4);
  CHECK(base_of(*rotary_of_layer(model, 3)) == 500);
  CHECK(base_of(*rotary_of_layer(model, 4)) == 1e6);
  CHECK(softmax_scale(model) == 0.0078125);
  const auto window = LayerWindow{WindowKind::Sliding, 128};
  for (const Index layer : {1, 2, 3}) CHECK(attention_of_layer(model, layer).window == window);
  for (const Index layer : {0, 4}) CHECK(attention_of_layer(model, layer).window == LayerWindow{});
  CHECK(attention_of_layer(model, 0).sinks == true);

  json usual = config("granitemoe_swa", {{"rope_theta", 5e5}});
  CHECK(base_of(*rotary_of_layer(read_hf_config(usual), 1)) == 5e5);
  CHECK(attention_of_layer(read_hf_config(usual), 1).window == window);
  CHECK(softmax_scale(read_hf_config(usual), "full_attention") == 1);
  for (const json& bases : {json{1e4}, json{1e4, 1e4, 1e4, 1e4, 1e4}}) {
    check_rejected(with(usual, {{"layer_rope_theta", bases}}),
                   "'layer_rope_theta' in the configuration must have an entry for each layer");
  }
  check_rejected(with(usual, {{"layer_rope_theta", {0, 0, 0, 0}}}),
                 "'layer_rope_theta' in the configuration lists no layer with a rotary encoding");
}

TEST_CASE("read_hf_config: a rope dict is copied for each base, not for each layer", "[interop]") {
  constexpr Index layers = 1000, entries = 1000;
  json dict = {{"rope_theta", 1e4}};
  for (Index i = 0; i < entries; ++i) dict["absent_" + std::to_string(i)] = nullptr;
  const json granite =
      config("granite_swa", {{"sliding_window", 128},
                             {"layer_rope_theta", std::vector<double>(layers, 1e4)},
                             {"num_hidden_layers", layers},
                             {"rope_parameters", dict}});
  const std::size_t before = support::allocations();
  CHECK(read_hf_config(granite).layer_count == layers);
  CHECK(static_cast<Index>(support::allocations() - before) < layers * entries / 4);
}

TEST_CASE("read_hf_config: local layers have the base of a dict, and not its scaling",
          "[interop]") {
  const json yarn = {{"rope_type", "yarn"},
                     {"rope_theta", 5e5},
                     {"factor", 8.0},
                     {"original_max_position_embeddings", 8192}};
  const auto olmo = read_hf_config(config("olmo3", {{"rope_parameters", yarn}}));
  CHECK(base_of(rotary(olmo, "sliding_attention")) == 5e5);
  CHECK(std::get<YarnScaling>(rotary(olmo, "full_attention").rule).base == 5e5);
  const auto mimo =
      read_hf_config(config("mimo_v2_flash", {{"partial_rotary_factor", 0.334},
                                              {"swa_rope_theta", 2e4},
                                              {"rope_parameters", {{"rope_theta", 3e6}}}}));
  CHECK(base_of(rotary(mimo, "sliding_attention")) == 2e4);
  CHECK(base_of(rotary(mimo, "full_attention")) == 3e6);
  json scaled = config("mimo_v2_flash", {{"partial_rotary_factor", 0.334}, {"rope_scaling", yarn}});
  check_rejected(
      scaled,
      "'rope_scaling' in the configuration scales local layers in one class of this model and "
      "not in another; it must have a dict for each type of layer");
  scaled["rope_scaling"] = {{"full_attention", yarn}, {"sliding_attention", {{"rope_theta", 2e4}}}};
  const auto global = read_hf_config(scaled);
  CHECK(std::get<YarnScaling>(rotary(global, "full_attention").rule).factor == 8);
  CHECK(base_of(rotary(global, "sliding_attention")) == 2e4);
}

TEST_CASE("read_hf_config: dicts without a base have that of their type of layers", "[interop]") {
  struct File {
    const char* type;
    json keys;
    double full, sliding;
  };
  const File files[] = {
      {"gemma3_text", {{"rope_local_base_freq", 2e4}}, 1e6, 2e4},
      {"gemma3_text", {{"rope_theta", 5e5}}, 5e5, 1e4},
      {"gemma3_text", json::object(), 1e6, 1e4},
      {"gemma3n_text", {{"rope_local_base_freq", 2e4}}, 1e6, 2e4},
      {"gemma3n_text", json::object(), 1e6, 1e4},
      {"modernbert", {{"global_rope_theta", 8e4}, {"local_rope_theta", 2e4}}, 8e4, 2e4},
      {"modernbert", json::object(), 160000, 1e4},
      {"modernbert-decoder", {{"local_rope_theta", 2e4}}, 160000, 2e4},
      {"mimo_v2_flash", {{"swa_rope_theta", 2e4}, {"rope_theta", 3e6}}, 3e6, 2e4},
      {"mimo_v2_flash", json::object(), 5e6, 1e4},
  };
  const json plain = {{"rope_type", "default"}};
  for (const File& file : files) {
    INFO(file.type << file.keys.dump());
    const json flat = config(file.type, file.keys);
    json nested = flat;
    nested["rope_parameters"] = {{"full_attention", plain}, {"sliding_attention", plain}};
    for (const json& one : {flat, nested}) {
      const auto model = read_hf_config(one);
      CHECK(base_of(rotary(model, "full_attention")) == file.full);
      CHECK(base_of(rotary(model, "sliding_attention")) == file.sliding);
    }
    for (const char* key : {"rope_local_base_freq", "local_rope_theta", "swa_rope_theta"}) {
      nested.erase(key);
    }
    nested["rope_parameters"]["sliding_attention"]["rope_theta"] = 7e4;
    CHECK(base_of(rotary(read_hf_config(nested), "sliding_attention")) == 7e4);
  }
  check_rejected(
      config("modernbert",
             {{"rope_theta", 1e4},
              {"rope_parameters", {{"full_attention", plain}, {"sliding_attention", plain}}}}),
      "'rope_theta' in the configuration contradicts global_rope_theta");
}

TEST_CASE("rope_theta: 0 is given, and invalid", "[interop]") {
  for (const json& zero : {json{{"rope_theta", 0}},
                           json{{"rope_scaling", {{"rope_type", "default"}, {"rope_theta", 0}}}}}) {
    CHECK_THROWS_MATCHES(
        read_hf_config(config("llama", zero)), posenc::ConfigError,
        Catch::Matchers::Message(
            "posenc::Unscaled: base must be set, finite and greater than 1, but is 0"));
  }
}

TEST_CASE("rope_parameters: an older and a newer form of the same dict", "[interop]") {
  const json older = {{"type", "linear"}, {"factor", 2.0}};
  const json newer = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 5e5}};
  const json both = config("llama", {{"rope_scaling", older}, {"rope_parameters", newer}});
  CHECK(std::get<posenc::LinearScaling>(rotary(read_hf_config(both)).rule).base == 5e5);
  const std::string differ = "rope_parameters and rope_scaling are both given, and differ";
  check_rejected(with(both, {{"rope_scaling", with(older, {{"factor", 4.0}})}}), differ);
  check_rejected(with(both, {{"rope_scaling", with(older, {{"rope_theta", 1e4}})}}), differ);
  check_rejected(
      with(both, {{"rope_scaling", with(older, {{"type", "yarn"}, {"rope_type", "linear"}})}}),
      differ);
  const json mrope = {{"type", "mrope"}, {"rope_type", "default"}};
  CHECK_NOTHROW(read_hf_config(
      config("llama", {{"rope_scaling", mrope}, {"rope_parameters", {{"rope_type", "default"}}}})));

  const json plain = {{"rope_type", "default"}, {"factor", 1.0}};
  CHECK(base_of(rotary(read_hf_config(config("llama", {{"rope_scaling", plain}})))) == 1e4);
  check_rejected(
      config("llama", {{"rope_scaling", with(plain, {{"factor", 2.0}})}}),
      "'factor' in rope_scaling is unknown, or has no effect with the other settings; remove it "
      "if it "
      "changes neither positions nor scores");

  const json nested = {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e6}}},
                       {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 2e4}}}};
  const auto gemma = read_hf_config(
      config("gemma3_text", {{"rope_parameters", nested}, {"rope_local_base_freq", 2e4}}));
  CHECK(base_of(rotary(gemma, "sliding_attention")) == 2e4);
  const auto bert = read_hf_config(
      config("modernbert", {{"rope_parameters", nested}, {"global_rope_theta", 1e6}}));
  CHECK(base_of(rotary(bert, "full_attention")) == 1e6);
}

}  // namespace hf_bases_test
