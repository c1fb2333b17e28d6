// SPDX-License-Identifier: MIT
// Values that a file has in a rope dict and beside it: two that differ are an error.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <string>

namespace hf_two_places_test {

using nlohmann::json;
using posenc::read_hf_config;
using support::hf::check_rejected;
using support::hf::config;

namespace {

const std::string advice = " beside it; remove the one that the weights were not trained with";

/// Checks a key that may stand in both places: equal values are read, others rejected.
void check_places(const char* type, const char* beside, const char* inside, const json& value,
                  const json& other, const json& dict = json::object(),
                  const json& more = json::object()) {
  for (const char* name : {"rope_parameters", "rope_scaling"}) {
    json file = config(type, more);
    file[name] = dict;
    file[name][inside] = value;
    file[beside] = value;
    INFO(file.dump());
    CHECK_NOTHROW(read_hf_config(file));
    file[beside] = other;
    check_rejected(file,
                   std::string("'") + inside + "' in " + name + " contradicts " + beside + advice);
  }
}

}  // namespace

TEST_CASE("rope_parameters: an error of two places names both", "[interop][errors]") {
  check_rejected(config("phi", {{"partial_rotary_factor", 1.0},
                                {"rope_parameters", {{"partial_rotary_factor", 0.5}}}}),
                 "'partial_rotary_factor' in rope_parameters contradicts partial_rotary_factor "
                 "beside it; remove the one that the weights were not trained with");
}

TEST_CASE("read_hf_config: rejects settings that a class keeps without effect",
          "[interop][errors]") {
  check_rejected(config("gpt_neox", {{"partial_rotary_factor", 0.5}}),
                 "'partial_rotary_factor' in the configuration has no effect in this class, which "
                 "reads rotary_pct");
  CHECK_NOTHROW(read_hf_config(config("gpt_neox", {{"partial_rotary_factor", 0.25}})));
  CHECK_NOTHROW(read_hf_config(config("gpt_neox", {{"rotary_pct", 0.5}})));
  const json flat = {{"rope_type", "linear"}, {"factor", 8.0}};
  for (const char* type : {"gemma3", "gemma3_text"}) {
    CHECK_NOTHROW(read_hf_config(config(type, {{"rope_scaling", flat}})));
    check_rejected(config(type, {{"rope_parameters", flat}}),
                   "'rope_parameters' in the configuration must have a dict per layer type: the "
                   "class ignores scaling outside of them");
  }
}

TEST_CASE("rope_parameters: a key in the dict and beside it must agree", "[interop][errors]") {
  check_places("phi", "partial_rotary_factor", "partial_rotary_factor", 0.5, 1.0);
  check_places("gpt_neox", "rotary_pct", "partial_rotary_factor", 0.5, 0.25);
  check_places("llama", "rope_theta", "rope_theta", 1e6, 1e5);
  check_places("llama", "rotary_emb_base", "rope_theta", 1e6, 1e5);
  check_places("llama", "original_max_position_embeddings", "original_max_position_embeddings",
               4096, 8192, {{"type", "yarn"}, {"factor", 8.0}});
  json longer = config("mistral4", {{"qk_nope_head_dim", 64}, {"qk_rope_head_dim", 64}});
  longer["rope_parameters"] = {{"rope_theta", 1e4}, {"max_position_embeddings", 32768}};
  CHECK_NOTHROW(read_hf_config(longer));
  longer["rope_parameters"]["max_position_embeddings"] = 262144;
  check_rejected(longer,
                 "'max_position_embeddings' in rope_parameters contradicts the one beside the "
                 "dict, which is the one that classes read");
}

TEST_CASE("rope_parameters: dicts per layer type must agree with values beside them",
          "[interop][errors]") {
  const json plain = {{"rope_type", "default"}};
  json gemma = config("gemma3_text", {{"rope_theta", 1e6}, {"rope_local_base_freq", 1e4}});
  gemma["rope_parameters"] = {{"full_attention", plain}, {"sliding_attention", plain}};
  gemma["rope_parameters"]["full_attention"]["rope_theta"] = 1e6;
  gemma["rope_parameters"]["sliding_attention"]["rope_theta"] = 1e4;
  CHECK_NOTHROW(read_hf_config(gemma));
  json other = gemma;
  other["rope_theta"] = 5e5;
  check_rejected(other,
                 "'rope_theta' in rope_parameters.full_attention contradicts rope_theta" + advice);
  other = gemma;
  other["rope_local_base_freq"] = 2e4;
  check_rejected(other,
                 "'rope_theta' in rope_parameters.sliding_attention contradicts "
                 "rope_local_base_freq" +
                     advice);

  json laguna = config("laguna", {{"partial_rotary_factor", 0.5}});
  laguna["rope_parameters"] = {
      {"full_attention", {{"rope_theta", 5e5}, {"partial_rotary_factor", 0.5}}},
      {"sliding_attention", {{"rope_theta", 1e4}, {"partial_rotary_factor", 1.0}}}};
  check_rejected(laguna,
                 "'partial_rotary_factor' in rope_parameters.sliding_attention contradicts "
                 "partial_rotary_factor" +
                     advice);

  json deepseek = config("deepseek_v4", {{"compress_ratios", {0, 0, 4, 128}},
                                         {"compress_rope_theta", 160000},
                                         {"qk_rope_head_dim", 64}});
  deepseek["rope_parameters"] = {{"main", {{"rope_theta", 1e4}}},
                                 {"compress", {{"rope_theta", 7e3}}}};
  check_rejected(
      deepseek,
      "'rope_theta' in rope_parameters.compress contradicts compress_rope_theta" + advice);
}

}  // namespace hf_two_places_test
