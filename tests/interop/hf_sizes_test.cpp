// SPDX-License-Identifier: MIT
// Sizes of a model in config.json.
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_config.hpp>

#include <string>
#include <vector>

namespace hf_sizes_test {

using nlohmann::json;
using posenc::ConfigError;
using posenc::Index;
using posenc::ModelSettings;
using posenc::read_hf_config;
using support::hf::check_rejected;
using support::hf::config;

TEST_CASE("read_hf_config sizes: sizes of the model", "[interop][hf]") {
  // The published sizes of Llama 3.1 8B.
  const auto llama = read_hf_config(config("llama", {{"vocab_size", 128256},
                                                     {"intermediate_size", 14336},
                                                     {"rms_norm_eps", 1e-5},
                                                     {"tie_word_embeddings", false}}));
  CHECK(llama.hidden_size == 4096);
  CHECK(llama.vocabulary_size == 128256);
  CHECK(llama.layer_count == 4);
  CHECK(llama.intermediate_sizes == std::vector<Index>{14336});
  CHECK(llama.norm_epsilon == 1e-5);
  CHECK(llama.tied_embeddings == false);
  for (Index layer = 0; layer < 4; ++layer) {
    CHECK(intermediate_size_of_layer(llama, layer) == 14336);
  }
  CHECK_THROWS_MATCHES(
      intermediate_size_of_layer(llama, 4), ConfigError,
      Catch::Matchers::Message(
          "posenc::intermediate_size_of_layer: the layer must be one of 4 but is 4"));
  CHECK_THROWS_AS(intermediate_size_of_layer(llama, -1), ConfigError);
}

TEST_CASE("read_hf_config sizes: sizes that the file lacks are absent", "[interop][hf]") {
  const auto model = read_hf_config(
      json{{"model_type", "llama"}, {"head_dim", 64}, {"intermediate_size", nullptr}});
  CHECK_FALSE(model.hidden_size);
  CHECK_FALSE(model.vocabulary_size);
  CHECK(model.intermediate_sizes.empty());
  CHECK_FALSE(intermediate_size_of_layer(model, 0));
  CHECK_FALSE(intermediate_size_of_layer(model, 100));
  CHECK(model.norm_epsilon == 1e-6);  // of the class
  CHECK_FALSE(model.tied_embeddings);
}

TEST_CASE("read_hf_config sizes: sizes have the names of their classes", "[interop][hf]") {
  for (const char* name : {"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon", "norm_eps",
                           "norm_epsilon", "layernorm_epsilon"}) {
    INFO(name);
    CHECK(read_hf_config(config("llama", {{name, 1e-6}})).norm_epsilon == 1e-6);
  }
  for (const char* name :
       {"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "inner_hidden_size"}) {
    INFO(name);
    CHECK(read_hf_config(config("llama", {{name, 512}})).intermediate_sizes ==
          std::vector<Index>{512});
  }
  CHECK(read_hf_config(config("llama", {{"padded_vocab_size", 640}})).vocabulary_size == 640);
  const json gptj = {{"model_type", "gptj"}, {"n_embd", 4096},   {"n_head", 16},
                     {"n_layer", 2},         {"rotary_dim", 64}, {"n_positions", 2048}};
  CHECK(read_hf_config(gptj).hidden_size == 4096);
}

TEST_CASE("read_hf_config sizes: sizes that contradict each other are absent", "[interop][hf]") {
  const auto model = read_hf_config(config("llama", {{"rms_norm_eps", 1e-6},
                                                     {"norm_eps", 1e-5},
                                                     {"vocab_size", 100},
                                                     {"padded_vocab_size", 128},
                                                     {"intermediate_size", 512},
                                                     {"ffn_dim", 1024}}));
  CHECK_FALSE(model.norm_epsilon);
  CHECK_FALSE(model.vocabulary_size);
  CHECK(model.intermediate_sizes.empty());
  const auto agreed = read_hf_config(config("llama", {{"rms_norm_eps", 1e-6}, {"norm_eps", 1e-6}}));
  CHECK(agreed.norm_epsilon == 1e-6);
}

TEST_CASE("read_hf_config sizes: feed-forward widths may differ between layers", "[interop][hf]") {
  const auto model =
      read_hf_config(config("llama", {{"intermediate_size", {512, 0, 1024, 2048.0}}}));
  CHECK(model.intermediate_sizes == std::vector<Index>{512, 0, 1024, 2048});
  CHECK(intermediate_size_of_layer(model, 2) == 1024);
  CHECK_THROWS_AS(intermediate_size_of_layer(model, 4), ConfigError);
  check_rejected(config("llama", {{"intermediate_size", {512, 512, 512}}}),
                 "'intermediate_size' in the configuration has 3 entries for 4 layers");

  const json without_count = {
      {"model_type", "llama"}, {"head_dim", 64}, {"intermediate_size", {1, 2}}};
  const auto unknown = read_hf_config(without_count);
  CHECK(intermediate_size_of_layer(unknown, 1) == 2);
  CHECK_THROWS_AS(intermediate_size_of_layer(unknown, 2), ConfigError);
}

TEST_CASE("read_hf_config sizes: embeddings of a nested text model are tied by either part",
          "[interop][hf]") {
  const auto tied = [](const json& outer, const json& inner) {
    json file = {{"model_type", "some"}, {"text_config", config("llama")}};
    if (!outer.is_null()) file["tie_word_embeddings"] = outer;
    if (!inner.is_null()) file["text_config"]["tie_word_embeddings"] = inner;
    return read_hf_config(file).tied_embeddings;
  };
  CHECK(tied({}, true) == true);
  CHECK(tied(false, {}) == false);
  CHECK(tied(true, true) == true);
  CHECK_FALSE(tied(true, false));
  CHECK_FALSE(tied({}, {}));
}

TEST_CASE("read_hf_config sizes: invalid sizes are errors that name the key", "[interop][hf]") {
  const std::string in = " in the configuration ";
  for (const char* name : {"hidden_size", "vocab_size", "intermediate_size", "ffn_dim"}) {
    INFO(name);
    auto file = config("llama", {{"head_dim", 128}});
    const auto rejects = [&](const json& value, const std::string& why) {
      file[name] = value;
      check_rejected(file, "'" + std::string(name) + "'" + in + why);
    };
    const bool may_be_zero =
        std::string(name) == "intermediate_size" || std::string(name) == "ffn_dim";
    const std::string range =
        std::string("must be from ") + (may_be_zero ? "0" : "1") + " to 2147483647";
    rejects(-1, range);
    if (!may_be_zero) rejects(0, range);
    rejects(2147483648, range);
    rejects("512", "must be an integer");
    rejects(true, "must be an integer");
    rejects(1.5, "must be an integer");
  }
  check_rejected(config("llama", {{"intermediate_size", {1, 2, 3, "4"}}}),
                 "'intermediate_size'" + in + "must be a list of integers");
  check_rejected(config("llama", {{"rms_norm_eps", 0}}),
                 "'rms_norm_eps'" + in + "must be positive");
  check_rejected(config("llama", {{"norm_eps", -1e-6}}), "'norm_eps'" + in + "must be positive");
  check_rejected(config("llama", {{"rms_norm_eps", "1e-6"}}),
                 "'rms_norm_eps'" + in + "must be a finite number");
  check_rejected(config("llama", {{"tie_word_embeddings", 1}}),
                 "'tie_word_embeddings'" + in + "must be true or false");
}

}  // namespace hf_sizes_test
