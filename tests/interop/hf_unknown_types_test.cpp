// SPDX-License-Identifier: MIT
// Files of an unknown model type: what the file does not state is asked for, and nothing is assumed.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/hf_config.hpp>

#include <string>
#include <vector>

namespace hf_unknown_types_test {

using Catch::Matchers::Message;
using nlohmann::json;
using posenc::ConfigError;
using posenc::HfConfigOptions;
using posenc::Index;
using posenc::MropeOrder;
using posenc::PairingKind;
using posenc::read_hf_config;
using support::hf::config;

namespace {

constexpr HfConfigOptions stated{
    .pairing = PairingKind::HalfRotate, .rotary_share = 1, .softmax_scale = 0.125};

void check_rejected(const json& of, const HfConfigOptions& options, const std::string& message) {
  INFO(of.dump());
  CHECK_THROWS_MATCHES(read_hf_config(of, options), ConfigError,
                       Message("posenc::read_hf_config: " + message));
}

std::string unknown(const std::string& type, const std::string& advice) {
  return "the model_type '" + type + "' is unknown; to read it as a plain rotary model, " + advice;
}

json sections(const json& list, const json& more = json::object()) {
  json dict = {{"rope_type", "default"}, {"rope_theta", 1e6}, {"mrope_section", list}};
  dict.update(more);
  return {{"rope_parameters", dict}};
}

std::vector<Index> axes_of(const json& of, const HfConfigOptions& options = {}) {
  const auto model = read_hf_config(of, options);
  const posenc::PairAxes& axes = rotary(model).axes;
  std::vector<Index> found;
  for (Index i = 0; i < axes.pairs(); ++i) found.push_back(axes.axis(i));
  return found;
}

}  // namespace

TEST_CASE("HfConfigOptions: an unknown type needs everything that its file does not state",
          "[interop]") {
  const json file = config("other", {{"rope_theta", 1e4}});
  check_rejected(file, {},
                 unknown("other", "set in the options: pairing, rotary_share, softmax_scale"));
  check_rejected(file, {.pairing = PairingKind::HalfRotate},
                 unknown("other", "set in the options: rotary_share, softmax_scale"));
  const auto model = read_hf_config(file, stated);
  CHECK(rotary_dim(rotary(model)) == 128);
  CHECK(model.softmax_scale == 0.125);
  const HfConfigOptions quarter{
      .pairing = PairingKind::HalfRotate, .rotary_share = 0.25, .softmax_scale = 0.125};
  CHECK(rotary_dim(rotary(read_hf_config(file, quarter))) == 32);

  // The share may be in the file, under each of its names.
  const HfConfigOptions shareless{.pairing = PairingKind::HalfRotate, .softmax_scale = 0.125};
  for (const json& more : std::vector<json>{
           {{"partial_rotary_factor", 0.5}},
           {{"rotary_pct", 0.5}},
           {{"rotary_dim", 64}},
           {{"rope_parameters", {{"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}}}}}) {
    json with_share = file;
    with_share.update(more);
    CHECK(rotary_dim(rotary(read_hf_config(with_share, shareless))) == 64);
    if (!more.contains("rotary_dim")) {
      check_rejected(with_share, stated,
                     "rotary_share of the options is 1 but the file's share is 0.5");
    }
  }
  const json one_share =
      config("other", {{"rope_parameters",
                        {{"a", {{"rope_theta", 1e4}, {"partial_rotary_factor", 0.5}}},
                         {"b", {{"rope_theta", 1e5}}}}}});
  check_rejected(one_share, shareless, unknown("other", "set in the options: rotary_share"));

  // A class may have a window by default: without a key it is not known.
  CHECK_THROWS_MATCHES(posenc::attention_options<float>(model, 0), ConfigError,
                       Message("posenc::attention_options: the file does not define the window of "
                               "layer 0"));
}

TEST_CASE("HfConfigOptions: options of unknown types are rejected for known ones", "[interop]") {
  check_rejected(config("llama"), {.rotary_share = 0.5},
                 "rotary_share must not be set for the known model_type 'llama'");
  check_rejected(config("llama"), {.softmax_scale = 0.5},
                 "softmax_scale must not be set for the known model_type 'llama'");
}

TEST_CASE("HfConfigOptions.mrope_order: the order of the axes of M-RoPE is asked for",
          "[interop][mrope]") {
  const json file = config("other", sections({24, 20, 20}));
  check_rejected(file, stated, unknown("other", "set in the options: mrope_order"));
  const auto ordered = [](MropeOrder order) {
    HfConfigOptions options = stated;
    options.mrope_order = order;
    return options;
  };
  CHECK(axes_of(file, ordered(MropeOrder::Interleaved))[1] == 1);
  CHECK(axes_of(file, ordered(MropeOrder::Chunked))[1] == 0);
  // The file may state it.
  const json alternating = config("other", sections({24, 20, 20}, {{"mrope_interleaved", true}}));
  CHECK(axes_of(alternating, stated)[1] == 1);
  check_rejected(alternating, ordered(MropeOrder::Chunked),
                 "'mrope_section' in rope_parameters has the other order than mrope_order of the "
                 "options: alternating axes");
  // "interleaved" alone may be that of the channels.
  const json odd = config("other", sections({24, 20, 20}, {{"interleaved", true}}));
  check_rejected(odd, stated, unknown("other", "set in the options: mrope_order"));
  CHECK(axes_of(odd, ordered(MropeOrder::Interleaved))[1] == 1);
  check_rejected(odd, ordered(MropeOrder::Chunked),
                 "'interleaved' in rope_parameters contradicts the order of the axes, which is "
                 "chunks");
  check_rejected(config("qwen3_vl_text", sections({24, 20, 20}, {{"interleaved", false}})), {},
                 "'interleaved' in rope_parameters contradicts the order of the axes, which is "
                 "alternating axes");
  // The classes of known types without such axes do not define an order either.
  check_rejected(config("llama", sections({24, 20, 20})), {},
                 "'mrope_section' in rope_parameters has no order of axes: set mrope_order in the "
                 "options");
  CHECK(axes_of(config("llama", sections({24, 20, 20})), {.mrope_order = MropeOrder::Chunked})[1] ==
        0);
  check_rejected(config("qwen2_vl", sections({16, 24, 24})),
                 {.mrope_order = MropeOrder::Interleaved},
                 "'mrope_section' in rope_parameters has the other order than mrope_order of the "
                 "options: chunks");
}

TEST_CASE("mrope_interleaved: sections that overrun give every third pair, as in its class",
          "[interop][mrope]") {
  const json file = config("qwen3_vl_text", sections({2, 15, 15}));
  json narrow = file;
  narrow["head_dim"] = 64;
  const auto axes = axes_of(narrow);
  for (std::size_t i = 0; i < axes.size(); ++i) CHECK(axes[i] == static_cast<Index>(i % 3));
  // h ends before w does.
  json uneven = narrow;
  uneven["rope_parameters"]["mrope_section"] = {12, 4, 16};
  const auto ends = axes_of(uneven);
  CHECK(ends[10] == 1);
  CHECK(ends[13] == 0);
  CHECK(ends[29] == 2);
}

TEST_CASE(
    "HfConfigOptions.ignored_keys: keys that are not understood are listed, and must be named",
    "[interop]") {
  const json file = config("other", {{"rope_theta", 1e4}, {"twist", 3}, {"prefix_lm", true}});
  check_rejected(file, {},
                 unknown("other",
                         "set in the options: pairing, rotary_share, softmax_scale; name in "
                         "ignored_keys, if they change neither positions nor scores: 'prefix_lm', "
                         "'twist'"));
  check_rejected(file, stated,
                 unknown("other",
                         "name in ignored_keys, if they change neither positions nor scores: "
                         "'prefix_lm', 'twist'"));
  HfConfigOptions options = stated;
  options.ignored_keys = "prefix_lm twist";
  CHECK_NOTHROW(read_hf_config(file, options));
  options.ignored_keys = "prefix_lm twist rope_theta";
  check_rejected(file, options, "ignored_keys names 'rope_theta', which has an effect");
  options.ignored_keys = "prefix_lm twist turn";
  check_rejected(file, options, "ignored_keys names 'turn', which the file does not have");

  // An encoder-decoder, images and linear layers are no plain rotary models.
  const json foreign = {{"is_encoder_decoder", true},
                        {"patch_size", 16},
                        {"vision_config", json::object()},
                        {"linear_attn_config", json::object()},
                        {"position_id_per_seconds", 25}};
  for (const auto& [key, value] : foreign.items()) {
    json odd = config("other", {{"rope_theta", 1e4}});
    odd[key] = value;
    check_rejected(odd, stated,
                   unknown("other",
                           "name in ignored_keys, if they change neither positions nor "
                           "scores: '" +
                               key + "'"));
  }
  // Ordinary keys are understood.
  CHECK_NOTHROW(read_hf_config(config("other", {{"rope_theta", 1e4},
                                                {"architectures", {"OtherForCausalLM"}},
                                                {"attention_bias", false},
                                                {"attention_dropout", 0.0},
                                                {"bos_token_id", 1},
                                                {"dtype", "bfloat16"},
                                                {"hidden_act", "silu"},
                                                {"initializer_range", 0.02},
                                                {"intermediate_size", 11008},
                                                {"is_encoder_decoder", false},
                                                {"mlp_bias", false},
                                                {"num_experts_per_tok", 8},
                                                {"pretraining_tp", 1},
                                                {"rms_norm_eps", 1e-6},
                                                {"rope_scaling", nullptr},
                                                {"tie_word_embeddings", false},
                                                {"transformers_version", "5.24.0"},
                                                {"use_cache", true},
                                                {"vocab_size", 32000}}),
                               stated));
  json many = config("other", {{"rope_theta", 1e4}});
  for (int i = 0; i < 20; ++i) many["key" + std::to_string(10 + i)] = i;
  CHECK_THROWS_WITH(read_hf_config(many, stated),
                    Catch::Matchers::EndsWith("'key24', 'key25' and 4 more"));
}

TEST_CASE("HfConfigOptions: models that are known and not supported stay rejected", "[interop]") {
  for (const HfConfigOptions& options : {HfConfigOptions{}, stated}) {
    check_rejected(config("cogvlm"), options,
                   "the model_type 'cogvlm' is not supported: it has positions that the tokens of "
                   "an image share, and a base that files do not define");
    check_rejected(
        config("gla"), options,
        "this 'gla' has no rotary encoding: it has linear attention or a state space in place of "
        "attention");
  }
}

TEST_CASE("layer_types: names that nobody defines are rejected", "[interop]") {
  const auto two = [](const char* type, const char* name) {
    return config(type, {{"num_hidden_layers", 2}, {"layer_types", {name, name}}});
  };
  for (const char* type : {"llama", "qwen3", "mistral"}) {
    for (const char* name : {"", "near", "Full_attention"}) {
      check_rejected(two(type, name), {},
                     "'layer_types' in the configuration has the type '" + std::string(name) +
                         "', which is unknown in this model");
    }
  }
  json own = two("qwen3", "near");
  own["rope_parameters"] = {{"far", {{"rope_theta", 1e4}}},
                            {"full_attention", {{"rope_theta", 1e5}}}};
  check_rejected(own, {},
                 "'layer_types' in the configuration has the type 'near', which has no rope dict");
  own["rope_parameters"].erase("far");
  check_rejected(own, {},
                 "'layer_types' in the configuration has the type 'near', which has no rope dict");
}

}  // namespace hf_unknown_types_test
