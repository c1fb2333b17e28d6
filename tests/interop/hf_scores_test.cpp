// SPDX-License-Identifier: MIT
// Scores in config.json: scale, soft cap, temperature of queries.
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/presets.hpp>

#include <nlohmann/json.hpp>

#include <string>

namespace hf_scores_test {

using Catch::Matchers::Message;
using nlohmann::json;
using posenc::ConfigError;
using posenc::QueryTemperature;
using posenc::QueryTemperatureFormula;
using posenc::read_hf_config;
using posenc::softmax_scale;
namespace presets = posenc::presets;

namespace {

json config(const char* model_type, const json& more = json::object()) {
  json result = {{"model_type", model_type},  {"hidden_size", 4096},
                 {"num_attention_heads", 64}, {"num_hidden_layers", 12},
                 {"rope_theta", 10000.0},     {"max_position_embeddings", 4096}};
  result.update(more);
  return result;
}

void check_rejected(const json& of, const std::string& message) {
  CHECK_THROWS_MATCHES(read_hf_config(of), ConfigError,
                       Message("posenc::read_hf_config: " + message));
}

double scale_of(const json& of) { return softmax_scale(read_hf_config(of)); }

json ministral(const json& more) {
  json dict = {{"rope_type", "yarn"}, {"factor", 16}, {"original_max_position_embeddings", 16384}};
  dict.update(more);
  return config("ministral3", {{"rope_parameters", dict}});
}

}  // namespace

TEST_CASE("softmax_scale: is the model's own, or the head's", "[interop]") {
  CHECK(scale_of(config("llama")) == 0.125);
  CHECK(scale_of(config("gemma")) == 0.0625);
  CHECK(scale_of(config("gemma2")) == 0.0625);
  CHECK(scale_of(config("gemma2", {{"head_dim", 128}})) == 0.0625);
  CHECK(scale_of(config("gemma2", {{"query_pre_attn_scalar", 144}})) == 1 / 12.0);
  CHECK(scale_of(config("gemma3_text", {{"head_dim", 128}})) == 0.0625);
  CHECK(scale_of(config("gemma3n_text", {{"query_pre_attn_scalar", 256}})) == 1);
  CHECK(scale_of(json{{"model_type", "gemma4_text"}}) == 1);
  CHECK(scale_of(config("granite")) == 1);
  CHECK(scale_of(config("granitemoe")) == 1);
  CHECK(scale_of(config("granite", {{"attention_multiplier", 0.0078125}})) == 0.0078125);
  CHECK(softmax_scale(presets::model("deepseek_v3")) == Approx(0.1352337788608801).epsilon(1e-12));
  CHECK(softmax_scale(presets::model("gemma2_27b")) == 1 / 12.0);
  check_rejected(config("granite", {{"attention_multiplier", 0}}),
                 "'attention_multiplier' in the configuration must be positive");
}

TEST_CASE("softmax_scale: of one type of layer", "[interop]") {
  const auto gemma = presets::model("gemma3_4b");
  CHECK(softmax_scale(gemma, "sliding_attention") == 0.0625);
  auto wide = gemma;
  wide.softmax_scale.reset();
  wide.layers[0].rotary.head_dim = 1024;
  CHECK(softmax_scale(wide, "full_attention") == 0.03125);
  CHECK_THROWS_MATCHES(softmax_scale(wide), ConfigError,
                       Message("posenc::softmax_scale: it is 0.03125 and 0.0625 by type of layer; "
                               "pass one of 'full_attention', 'sliding_attention'"));

  const auto hybrid = read_hf_config(config("qwen3_next"));
  CHECK(softmax_scale(hybrid, "full_attention") == 0.0625);
  CHECK_THROWS_MATCHES(softmax_scale(hybrid, "linear_attention"), ConfigError,
                       Message("posenc::softmax_scale: no layers of the type 'linear_attention' "
                               "with a softmax, but ''"));
  const auto local = read_hf_config(config("cohere2"));
  CHECK(softmax_scale(local, "full_attention") == 0.125);  // no rotary encoding, but attention
  CHECK_THROWS_AS(softmax_scale(local, "cross_attention"), ConfigError);
  CHECK_THROWS_AS(softmax_scale(posenc::ModelSettings{}), ConfigError);
}

TEST_CASE("read_hf_config scores: the soft cap is read", "[interop]") {
  CHECK(read_hf_config(config("gemma2")).softcap == 50.0);
  CHECK(read_hf_config(config("gemma2", {{"attn_logit_softcapping", 30.0}})).softcap == 30.0);
  CHECK_FALSE(read_hf_config(config("gemma2", {{"attn_logit_softcapping", nullptr}})).softcap);
  CHECK_FALSE(read_hf_config(config("gemma3_text")).softcap);
  CHECK(read_hf_config(config("gemma3_text", {{"attn_logit_softcapping", 20.0}})).softcap == 20.0);
  check_rejected(
      config("llama", {{"attn_logit_softcapping", 50.0}}),
      "'attn_logit_softcapping' in the configuration is unknown, or has no effect with the other "
      "settings; remove it if it changes neither positions nor scores");
  check_rejected(config("gemma2", {{"attn_logit_softcapping", -1}}),
                 "'attn_logit_softcapping' in the configuration must be positive");
}

TEST_CASE("read_hf_config scores: Llama 4's temperature is read", "[interop]") {
  const auto of = [](const json& more) {
    return read_hf_config(config("llama4_text", more)).query_temperature;
  };
  const QueryTemperature usual{.formula = QueryTemperatureFormula::LogFloor,
                               .scale = 0.1,
                               .length = 8192,
                               .offset = 1,
                               .only_without_rotary = true};
  CHECK(of(json::object()) == usual);
  CHECK(of({{"attn_temperature_tuning", true}}) == usual);
  CHECK(of({{"attn_temperature_tuning", 4}}) == usual);
  CHECK_FALSE(of({{"attn_temperature_tuning", false}}));
  CHECK_FALSE(of({{"attn_temperature_tuning", 0}}));
  auto other = usual;
  other.scale = 0.2;
  other.length = 4096;
  CHECK(of({{"attn_scale", 0.2}, {"floor_scale", 4096}}) == other);
  check_rejected(config("llama4_text", {{"floor_scale", 0}}),
                 "'floor_scale' in the configuration must be positive");
  check_rejected(config("llama4_text", {{"attn_temperature_tuning", "yes"}}),
                 "'attn_temperature_tuning' in the configuration must be true or false");
  for (const char* key : {"attn_temperature_tuning", "floor_scale", "attn_scale"}) {
    check_rejected(config("llama", {{key, 4}}),
                   std::string("'") + key +
                       "' in the configuration is unknown, or has no effect "
                       "with the other settings; remove it if it changes neither "
                       "positions nor scores");
  }
}

TEST_CASE("read_hf_config scores: Ministral 3's temperature is read, and 0 is none", "[interop]") {
  const auto of = [](const json& more) {
    return read_hf_config(ministral(more)).query_temperature;
  };
  CHECK_FALSE(of(json::object()));
  CHECK_FALSE(of({{"llama_4_scaling_beta", 0}}));
  CHECK_FALSE(of({{"llama_4_scaling_beta", 0.0}}));
  CHECK(of({{"llama_4_scaling_beta", 0.1}}) ==
        QueryTemperature{
            .formula = QueryTemperatureFormula::LogFloor, .scale = 0.1, .length = 16384});
}

TEST_CASE("read_hf_config scores: invalid scores are rejected", "[interop]") {
  const auto refuse_model = [](const auto& change, const std::string& message) {
    auto model = presets::model("llama3_8b");
    CHECK_NOTHROW(validate(model));
    change(model);
    CHECK_THROWS_MATCHES(validate(model), ConfigError,
                         Message("posenc::ModelSettings: " + message));
  };
  refuse_model([](auto& m) { m.softmax_scale = 0; },
               "softmax_scale must be finite and positive but is 0");
  refuse_model([](auto& m) { m.softcap = -1; }, "softcap must be finite and positive but is -1");
  refuse_model([](auto& m) { m.query_temperature = QueryTemperature{}; },
               "the length of query_temperature must be finite and positive but is 0");
  // Values that would multiply scores by an infinity.
  for (const auto formula : {QueryTemperatureFormula::LogN, QueryTemperatureFormula::LogRatio}) {
    refuse_model(
        [&](auto& m) { m.query_temperature = QueryTemperature{.formula = formula, .length = 1}; },
        "the length of query_temperature must be more than 1 for a ratio of logarithms but is 1");
  }
  refuse_model(
      [](auto& m) { m.query_temperature = QueryTemperature{.scale = 1, .length = 1e-300}; },
      "query_temperature, of scale 1 and length 1e-300, must be finite up to position 2^53");
  refuse_model(
      [](auto& m) { m.query_temperature = QueryTemperature{.scale = 1e308, .length = 1}; },
      "query_temperature, of scale 1e+308 and length 1, must be finite up to position 2^53");
  check_rejected(
      config("qwen", {{"use_dynamic_ntk", false}, {"seq_length", 1}}),
      "'seq_length' in the configuration must be at least 2, since its logarithm is divided by");
}

}  // namespace hf_scores_test
