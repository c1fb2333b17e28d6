// SPDX-License-Identifier: MIT
// Norms of queries and keys in model files.
#include "interop/gguf_writer.hpp"
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/detail/hf_model_types.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/detail/qk_norm_rows.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/hf_config.hpp>

#include <set>
#include <sstream>
#include <string>

namespace qk_norm_of_layer_test {

using nlohmann::json;
using posenc::ConfigError;
using posenc::LayerQkNorm;
using posenc::QkNorm;
using posenc::QkNormOver;
using posenc::QkNormWeight;
using posenc::read_hf_config;
using support::hf::config;

namespace {

QkNorm norm_of(const json& file) { return qk_norm_of_layer(read_hf_config(file), 0); }

std::string error_of(const json& file) {
  try {
    (void)norm_of(file);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("config.json gives the norm of queries and keys", "[interop][hf][norm]") {
  const json eps = {{"rms_norm_eps", 1e-6}};
  CHECK(norm_of(config("qwen3", eps)) == QkNorm{QkNormOver::Head, QkNormWeight::Factor, 1e-6});
  CHECK(norm_of(config("qwen3_moe", eps)) == QkNorm{QkNormOver::Head, QkNormWeight::Factor, 1e-6});
  CHECK(norm_of(config("gemma3_text", eps)) ==
        QkNorm{QkNormOver::Head, QkNormWeight::FactorMinusOne, 1e-6});
  CHECK(norm_of(config("olmo2", eps)) == QkNorm{QkNormOver::AllHeads, QkNormWeight::Factor, 1e-6});
  CHECK(norm_of(config("olmo3", {{"rms_norm_eps", 1e-6}, {"rope_theta", 5e5}})) == QkNorm{QkNormOver::AllHeads, QkNormWeight::Factor, 1e-6});
  CHECK(norm_of(config("llama", eps)) == QkNorm{});
}

TEST_CASE("a flag may switch the norm of queries and keys", "[interop][hf][norm]") {
  const auto glm = [](const json& flag) {
    return norm_of(config("glm4_moe", {{"rms_norm_eps", 1e-5}, {"use_qk_norm", flag}}));
  };
  CHECK(glm(true).over == QkNormOver::Head);
  CHECK(glm(false) == QkNorm{});
  CHECK(glm({}) == QkNorm{});
  support::hf::check_rejected(config("glm4_moe", {{"use_qk_norm", 1}}),
                              "'use_qk_norm' in the configuration must be true or false");
}

TEST_CASE("norms that the module lacks, or that are unknown, are errors", "[interop][hf][norm]") {
  const std::string name = "posenc::qk_norm_of_layer: ";
  CHECK(error_of(config("qwen3")) == name + "the file does not define the epsilon of norms");
  CHECK(error_of(config("mistral")) ==
        name +
            "the norm of queries and keys is not known for 'mistral', or layer 0 has no softmax");
  const json cohere = {{"rope_theta", 10000}, {"use_qk_norm", true}, {"layer_norm_eps", 1e-5}};
  CHECK(error_of(config("cohere", cohere)) ==
        name +
            "layer 0 has a layer norm of queries and keys, which MultiHeadAttention does not have");
  CHECK(error_of(config("hunyuan_v1_dense", {{"rms_norm_eps", 1e-5}})) ==
        name +
            "layer 0 has a norm of queries and keys after their rotation, which "
            "MultiHeadAttention does not have");
  const json open = {{"model_type", "qwen3_like"}, {"head_dim", 64}, {"rope_theta", 10000}};
  const auto unknown = read_hf_config(open, {.pairing = posenc::PairingKind::HalfRotate});
  CHECK_FALSE(attention_of_layer(unknown, 0).qk_norm);
  CHECK_THROWS_AS(qk_norm_of_layer(read_hf_config(config("qwen3")), 4), ConfigError);
}

TEST_CASE("a GGUF file gives the norm of queries and keys", "[interop][gguf][norm]") {
  const auto norm = [](const std::string& architecture) {
    support::GgufWriter writer;
    writer.architecture(architecture)
        .integer(architecture + ".embedding_length", 1024)
        .integer(architecture + ".attention.head_count", 8)
        .integer(architecture + ".block_count", 12)
        .real(architecture + ".attention.layer_norm_rms_epsilon", 0x1p-20F);
    return qk_norm_of_layer(posenc::read_gguf(writer.bytes()), 0);
  };
  CHECK(norm("qwen3") == QkNorm{QkNormOver::Head, QkNormWeight::Factor, 0x1p-20});
  // llama.cpp's converter adds 1 to Gemma's weights.
  CHECK(norm("gemma3") == QkNorm{QkNormOver::Head, QkNormWeight::Factor, 0x1p-20});
  CHECK(norm("olmo2") == QkNorm{QkNormOver::AllHeads, QkNormWeight::Factor, 0x1p-20});
  CHECK_THROWS_AS(norm("llama"), ConfigError);
}

TEST_CASE("rows of norms name known types, each once", "[interop][norm]") {
  std::set<std::string> seen;
  for (const auto& row : posenc::detail::hf_qk_norms) {
    std::istringstream names{std::string(row.names)};
    for (std::string name; names >> name;) {
      INFO(name);
      CHECK(seen.insert(name).second);
      CHECK(posenc::detail::find_hf_model_type(name) != nullptr);
    }
  }
  for (const auto& row : posenc::detail::gguf_qk_norms) {
    std::istringstream names{std::string(row.names)};
    for (std::string name; names >> name;) {
      INFO(name);
      CHECK(posenc::detail::find_row(posenc::detail::gguf_architectures, name) != nullptr);
    }
  }
}

}  // namespace qk_norm_of_layer_test
