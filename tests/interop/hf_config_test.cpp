// SPDX-License-Identifier: MIT
// config.json in old and new style is read as the settings with which transformers runs the model.
#include "hf_file.hpp"
#include "interop/settings.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/multimodal_axes.hpp>

#include <nlohmann/json.hpp>

#include <vector>

namespace hf_config_test {

using nlohmann::json;
using posenc::Index;
using posenc::ModelSettings;
using posenc::PairingKind;
using posenc::read_hf_config;
using posenc::RotarySettings;
using posenc::Unscaled;
using posenc::YarnScaling;
using support::difference;
using support::hf::rotary_config;
using support::hf::with;

namespace {

template <class Rule>
Rule rule_of(const json& of) {
  return std::get<Rule>(rotary(read_hf_config(of)).rule);
}

template <class Rule>
Rule scaled(const json& dict, const char* model_type = "llama") {
  return rule_of<Rule>(with(rotary_config(model_type), {{"rope_scaling", dict}}));
}

const Unscaled& unscaled(const ModelSettings& model, const char* layer_type) {
  return std::get<Unscaled>(rotary(model, layer_type).rule);
}

}  // namespace

TEST_CASE("rope_theta: sought in the dict, beside it, and in the class", "[interop]") {
  auto bare = rotary_config();
  bare.erase("rope_theta");
  CHECK(rule_of<Unscaled>(bare).base == 10000);
  CHECK(rule_of<Unscaled>(with(bare, {{"rotary_emb_base", 5000}})).base == 5000);
  CHECK(rule_of<Unscaled>(with(bare, {{"rope_theta", 20000}})).base == 20000);
  const json dict = {{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 30000}}}};
  CHECK(rule_of<Unscaled>(with(bare, dict)).base == 30000);
  bare["model_type"] = "gpt_oss";
  CHECK(rule_of<YarnScaling>(bare).base == 150000);
}

TEST_CASE("read_hf_config: each type of scaling makes its rule", "[interop]") {
  CHECK(scaled<Unscaled>({{"rope_type", "default"}}).base == 10000);
  CHECK(scaled<posenc::LinearScaling>({{"type", "linear"}, {"factor", 2}}).factor == 2);
  const auto dynamic = scaled<posenc::DynamicNtkScaling>({{"type", "dynamic"}, {"factor", 2}});
  CHECK(dynamic.original_max_position == 4096);
  const auto alpha = scaled<posenc::AlphaNtkScaling>(
      {{"type", "dynamic"}, {"alpha", 1000.0}, {"factor", 1.0}, {"beta_fast", 32}, {"mscale", 1.0}},
      "hunyuan_v1_dense");
  CHECK(alpha.alpha == 1000);
  CHECK(scaled<posenc::VllmNtkScaling>({{"type", "ntk"}, {"factor", 2}}).factor == 2);
  CHECK(scaled<posenc::VllmMixedNtkScaling>({{"type", "ntk"}, {"factor", 2}, {"mixed_b", 0.7}})
            .mixed_b == 0.7);
  const auto proportional = scaled<posenc::ProportionalScaling>(
      {{"rope_type", "proportional"}, {"partial_rotary_factor", 0.25}});
  CHECK(proportional.head_dim == 128);
  CHECK(proportional.partial_rotary_factor == 0.25);
  const auto llama3 = scaled<posenc::Llama3Scaling>({{"rope_type", "llama3"},
                                                     {"factor", 8},
                                                     {"low_freq_factor", 1},
                                                     {"high_freq_factor", 4},
                                                     {"original_max_position_embeddings", 2048}});
  CHECK(llama3.original_max_position == 2048);
  const auto dynamic_yarn = scaled<posenc::DynamicYarnScaling>(
      {{"type", "dynamic-yarn"}, {"original_max_position_embeddings", 1024}, {"finetuned", true}});
  CHECK(dynamic_yarn.original_max_position == 1024);
  CHECK(dynamic_yarn.finetuned_max_position == 4096);
}

TEST_CASE("read_hf_config: YaRN's factors mean what transformers and vLLM mean", "[interop]") {
  const json base = {{"rope_type", "yarn"}, {"factor", 4}};
  const double own = posenc::yarn_mscale(4);
  const auto factor_of = [&](const json& more, const char* model_type = "llama") {
    return frequencies(scaled<YarnScaling>(with(base, more), model_type)).attention_factor();
  };
  CHECK(factor_of({}) == own);
  CHECK(factor_of({{"attention_factor", 1.5}}) == 1.5);
  CHECK(factor_of({{"attn_factor", 0.5}}) == own * 0.5);
  CHECK(factor_of({{"mscale", 0.7}}) == own);
  CHECK(factor_of({{"mscale_all_dim", 0.7}}) == own);
  CHECK(factor_of({{"mscale", 1.0}, {"mscale_all_dim", 0.7}}) ==
        Approx(own / posenc::yarn_mscale(4, 0.7)).epsilon(1e-15));

  const auto yarn = scaled<YarnScaling>(with(base, {{"beta_fast", 0},
                                                    {"beta_slow", 2},
                                                    {"truncate", false},
                                                    {"finetuned", true},
                                                    {"extrapolation_factor", 1.0},
                                                    {"apply_yarn_scaling", true}}));
  CHECK(yarn.beta_fast == 32);
  CHECK(yarn.beta_slow == 2);
  CHECK_FALSE(yarn.truncate);
  CHECK(yarn.original_max_position == 4096);
  CHECK(scaled<YarnScaling>({{"type", "yarn"}, {"original_max_position_embeddings", 512}}).factor ==
        8);
  CHECK(scaled<YarnScaling>(with(base, {{"type", "deepseek_yarn"}})).factor == 4);
}

TEST_CASE("mscale_all_dim: enters the softmax scale of MLA models alone", "[interop]") {
  const json dict = {{"type", "yarn"}, {"factor", 40}, {"mscale", 1.0}, {"mscale_all_dim", 1.0}};
  const json widths = {{"qk_nope_head_dim", 128}, {"qk_rope_head_dim", 64}, {"rope_scaling", dict}};
  const auto deepseek = read_hf_config(with(rotary_config("deepseek_v3"), widths));
  CHECK(frequencies(rotary(deepseek)).softmax_scale_multiplier() == Approx(1.8739).epsilon(1e-4));
  CHECK(rotary(deepseek).rotary_offset == 128);
  CHECK(rotary(deepseek).head_dim == 192);
  CHECK(rotary(deepseek).pairing == PairingKind::Interleaved);
  const auto halves = read_hf_config(
      with(with(rotary_config("deepseek_v3"), widths), {{"rope_interleave", false}}));
  CHECK(rotary(halves).pairing == PairingKind::HalfRotate);
  const auto named =
      read_hf_config(with(with(rotary_config("deepseek_v3"), widths), {{"rope_interleave", false}}),
                     {.pairing = PairingKind::Interleaved});
  CHECK(rotary(named).pairing == PairingKind::Interleaved);
  const auto plain = frequencies(scaled<YarnScaling>(dict, "ministral3"));
  CHECK(plain.softmax_scale_multiplier() == 1);
  CHECK(plain.attention_factor() == 1);
}

TEST_CASE("read_hf_config: LongRoPE's factor is sought in four places", "[interop]") {
  const std::vector<double> divisors(64, 2);
  const json base = {{"type", "longrope"}, {"short_factor", divisors}, {"long_factor", divisors}};
  const auto read = [&](const json& more, const json& beside = {}) {
    return std::get<posenc::LongRopeScaling>(
        rotary(read_hf_config(
                   with(with(rotary_config(), {{"rope_scaling", with(base, more)}}), beside)))
            .rule);
  };
  CHECK(read({}).factor == 1);
  CHECK(read({{"factor", 8}}).factor == 8);
  CHECK(read({}, {{"original_max_position_embeddings", 1024}}).factor == 4);
  CHECK(read({{"original_max_position_embeddings", 2048}}).factor == 2);
  CHECK(read({{"original_max_position_embeddings", 2048}},
             {{"original_max_position_embeddings", 2048}})
            .original_max_position == 2048);
  CHECK(read({{"factor", 8}, {"attention_factor", 1.5}}).attention_factor == 1.5);
  CHECK(read({{"short_mscale", 1.25}, {"long_mscale", 1.5}}).long_mscale == 1.5);
}

TEST_CASE("rope_parameters: equal the older rope_scaling", "[interop]") {
  json old = with(rotary_config(), {{"rope_scaling", {{"type", "yarn"}, {"factor", 4}}}});
  json current = rotary_config();
  current.erase("rope_theta");
  current["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 4}, {"rope_theta", 10000.0}};
  CHECK(difference(read_hf_config(old), read_hf_config(current)) == "");
  current["rope_parameters"]["type"] = "yarn";
  CHECK(difference(read_hf_config(old), read_hf_config(current.dump())) == "");
  CHECK(difference(read_hf_config(old),
                   read_hf_config(json{{"model_type", "llava"}, {"text_config", current}})) == "");
}

TEST_CASE("rope_parameters: one dict per layer type", "[interop]") {
  auto gemma = rotary_config("gemma3_text");
  gemma.erase("rope_theta");
  const auto by_class = read_hf_config(gemma);
  CHECK(unscaled(by_class, "full_attention").base == 1000000);
  CHECK(unscaled(by_class, "sliding_attention").base == 10000);
  CHECK(by_class.layer_types[4] == "sliding_attention");
  CHECK(by_class.layer_types[5] == "full_attention");

  auto nested = gemma;
  nested["rope_parameters"] = {
      {"full_attention", {{"rope_type", "default"}, {"rope_theta", 1000000}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 10000}}}};
  CHECK(difference(read_hf_config(nested), by_class) == "");

  // Layer types that are unknown to transformers are kept by name.
  auto own = rotary_config("qwen3");
  own.erase("rope_theta");
  own["num_hidden_layers"] = 2;
  own["layer_types"] = {"near", "far"};
  own["rope_parameters"] = {{"near", {{"rope_theta", 100}}}, {"far", {{"rope_theta", 200}}}};
  const auto model = read_hf_config(own);
  CHECK(std::get<Unscaled>(rotary_of_layer(model, 1)->rule).base == 200);
}

TEST_CASE("read_hf_config: models whose layers differ", "[interop]") {
  auto modern = rotary_config("modernbert");
  modern.erase("rope_theta");
  modern["local_rope_theta"] = 9000;
  const auto bert = read_hf_config(modern);
  CHECK(unscaled(bert, "full_attention").base == 160000);
  CHECK(unscaled(bert, "sliding_attention").base == 9000);
  CHECK(bert.layer_types[0] == "full_attention");
  CHECK(bert.layer_types[1] == "sliding_attention");

  const auto olmo = read_hf_config(
      with(rotary_config("olmo3"), {{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 8}}}}));
  CHECK(std::holds_alternative<YarnScaling>(rotary(olmo, "full_attention").rule));
  CHECK(unscaled(olmo, "sliding_attention").base == 10000);

  const auto cohere = read_hf_config(rotary_config("cohere2"));
  CHECK(rotary_of_layer(cohere, 3) == nullptr);
  CHECK(rotary_of_layer(cohere, 2) == &rotary(cohere));

  const json llama4 = with(rotary_config("llama4_text"),
                           {{"num_hidden_layers", 4}, {"no_rope_layers", {1, 1, 1, 0}}});
  CHECK(read_hf_config(llama4).layers_without_rotary == std::vector<Index>{3});
  CHECK(read_hf_config(rotary_config("llama4_text")).layers_without_rotary ==
        std::vector<Index>{3, 7, 11});

  const json exaone =
      with(rotary_config("exaone4"), {{"num_hidden_layers", 2},
                                      {"sliding_window", 4096},
                                      {"layer_types", {"sliding_attention", "full_attention"}}});
  CHECK(rotary_of_layer(read_hf_config(exaone), 1) == nullptr);
  CHECK(rotary_of_layer(read_hf_config(rotary_config("exaone4")), 1) != nullptr);
}

TEST_CASE("read_hf_config: axes of vision-language models", "[interop]") {
  const auto axes = [](const char* model_type, const json& dict) {
    const auto model = read_hf_config(with(rotary_config(model_type), {{"rope_scaling", dict}}));
    return rotary(model).axes;
  };
  CHECK(axes("qwen2_vl",
             {{"type", "mrope"}, {"rope_type", "default"}, {"mrope_section", {16, 24, 24}}}) ==
        posenc::mrope_chunked({16, 24, 24}));
  CHECK(axes("qwen3_vl", {{"mrope_section", {24, 20, 20}}}) ==
        posenc::mrope_interleaved({24, 20, 20}, posenc::MropeTail::Time));
  CHECK(axes("llama", {{"mrope_section", {24, 20, 20}}, {"mrope_interleaved", true}}) ==
        posenc::mrope_interleaved({24, 20, 20}, posenc::MropeTail::Time));
  CHECK(axes("ernie4_5_vl_moe", {{"mrope_section", {22, 22, 20}}}) ==
        posenc::ernie_axes({22, 22, 20}));
  CHECK(axes("hunyuan_vl",
             {{"type", "xdrope"}, {"alpha", 1000}, {"xdrope_section", {16, 16, 16, 16}}}) ==
        posenc::xdrope_axes({16, 16, 16, 16}));
}

TEST_CASE("read_hf_config: models with a softmax scale of their own", "[interop]") {
  CHECK_FALSE(read_hf_config(rotary_config()).softmax_scale);
  CHECK(read_hf_config(with(rotary_config("gemma2"), {{"query_pre_attn_scalar", 144}}))
            .softmax_scale == 1 / 12.0);
  CHECK(read_hf_config(with(rotary_config("granite"), {{"attention_multiplier", 0.0078125}}))
            .softmax_scale == 0.0078125);
}

TEST_CASE("read_hf_config: ChatGLM rotates half of the head by one id, or both by two",
          "[interop]") {
  auto glm = rotary_config("chatglm");
  glm.erase("rope_theta");
  const auto two = read_hf_config(with(glm, {{"rope_ratio", 500}}));
  CHECK(std::get<Unscaled>(rotary(two).rule).base == 5000000);
  CHECK(std::get<Unscaled>(rotary(two).rule).rotary_dim == 64);
  CHECK(rotary(two).pairing == PairingKind::Interleaved);
  CHECK(rotary(read_hf_config(with(glm, {{"original_rope", true}}))).pairing ==
        PairingKind::Interleaved);
  const json cogagent = with(glm, {{"original_rope", false}});
  CHECK(rotary(read_hf_config(cogagent)).pairing == PairingKind::HalfRotate);
  CHECK(std::get<Unscaled>(rotary(read_hf_config(cogagent)).rule).rotary_dim == 64);
  CHECK_FALSE(rotary(read_hf_config(cogagent)).chatglm_halves);
  CHECK(rotary(read_hf_config(cogagent, {.pairing = PairingKind::Interleaved})).pairing ==
        PairingKind::Interleaved);
  // ChatGLM2-6B-32K divides positions by the ratio.
  const json longer = {{"rope_scaling", {{"type", "linear"}, {"factor", 50.0}}}};
  const auto divided =
      std::get<posenc::LinearScaling>(rotary(read_hf_config(with(glm, longer))).rule);
  CHECK(divided.base == 10000);
  CHECK(divided.factor == 50);
  const auto first = read_hf_config(with(glm, {{"position_encoding_2d", true}}));
  CHECK(rotary(first).chatglm_halves);
  CHECK(rotary(first).pairing == PairingKind::HalfRotate);
  CHECK(rope(first).axis_count() == 2);
}

}  // namespace hf_config_test
