// SPDX-License-Identifier: MIT
// Norms of queries and keys in model files.
#include "interop/gguf_writer.hpp"
#include "interop/hf_file.hpp"
#include "support/catch.hpp"
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/detail/hf_read.hpp>
#include <posenc/interop/detail/names.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/hf_config.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace qk_norm_of_layer_test {

using nlohmann::json;
using posenc::ConfigError;
using posenc::LayerQkNorm;
using posenc::LayerQkNormKind;
using posenc::LayerQkNormWeights;
using posenc::QkNorm;
using posenc::QkNormOver;
using posenc::QkNormWeight;
using posenc::read_hf_config;
using support::hf::config;

namespace {

QkNorm norm_of(const json& file) { return qk_norm_of_layer(read_hf_config(file), 0); }

std::optional<LayerQkNorm> described(const json& file, posenc::Index layer = 0) {
  return attention_of_layer(read_hf_config(file), layer).qk_norm;
}

/// Calls f with each row of model types.
template <class F>
void for_each_row(const F& f) {
  for (const auto& row : posenc::detail::hf_plain_types) f(row);
  for (const auto& row : posenc::detail::hf_window_types) f(row);
  for (const auto& row : posenc::detail::hf_layered_types) f(row);
  for (const auto& row : posenc::detail::hf_custom_types) f(row);
}

std::string error_of(const json& file) {
  try {
    (void)norm_of(file);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace

TEST_CASE("qk_norm: config.json gives the norm of queries and keys", "[interop][hf][norm]") {
  const json eps = {{"rms_norm_eps", 1e-6}};
  CHECK(norm_of(config("qwen3", eps)) == QkNorm{QkNormOver::Head, QkNormWeight::Factor, 1e-6});
  CHECK(norm_of(config("qwen3_moe", eps)) == QkNorm{QkNormOver::Head, QkNormWeight::Factor, 1e-6});
  CHECK(norm_of(config("gemma3_text", eps)) ==
        QkNorm{QkNormOver::Head, QkNormWeight::FactorMinusOne, 1e-6});
  CHECK(norm_of(config("olmo2", eps)) == QkNorm{QkNormOver::AllHeads, QkNormWeight::Factor, 1e-6});
  CHECK(norm_of(config("olmo3", {{"rms_norm_eps", 1e-6}, {"rope_theta", 5e5}})) ==
        QkNorm{QkNormOver::AllHeads, QkNormWeight::Factor, 1e-6});
  CHECK(norm_of(config("llama", eps)) == QkNorm{});
}

TEST_CASE("qk_norm: a flag may switch the norm of queries and keys", "[interop][hf][norm]") {
  const auto glm = [](const json& flag) {
    return norm_of(config("glm4_moe", {{"rms_norm_eps", 1e-5}, {"use_qk_norm", flag}}));
  };
  CHECK(glm(true).over == QkNormOver::Head);
  CHECK(glm(false) == QkNorm{});
  CHECK(glm({}) == QkNorm{});
  support::hf::check_rejected(config("glm4_moe", {{"use_qk_norm", 1}}),
                              "'use_qk_norm' in the configuration must be true or false");
}

TEST_CASE("qk_norm: norms that the module lacks, or that are unknown, are errors",
          "[interop][hf][norm]") {
  const std::string name = "posenc::qk_norm_of_layer: ";
  // Programs differ in the key that they read.
  CHECK(error_of(config("qwen3", {{"rms_norm_eps", 1e-6}, {"norm_eps", 1e-5}})) ==
        name + "the file does not define the epsilon of norms");
  CHECK(error_of(config("transformer")) ==
        name +
            "the norm of queries and keys is not known for 'transformer', or layer 0 has no "
            "softmax");
  const json cohere = {{"rope_theta", 10000}, {"use_qk_norm", true}, {"layer_norm_eps", 1e-5}};
  CHECK(error_of(config("cohere", cohere)) ==
        name +
            "layer 0 has a layer norm of queries and keys, which MultiHeadAttention does not have");
  CHECK(error_of(config("hunyuan_v1_dense", {{"rms_norm_eps", 1e-5}})) ==
        name +
            "layer 0 has a norm of queries and keys after their rotation, which "
            "MultiHeadAttention does not have");
  const json deepseek = {{"head_dim", 512}, {"qk_rope_head_dim", 64}};
  CHECK(error_of(config("deepseek_v4", deepseek)) ==
        name +
            "layer 0 has a norm whose factors are not those of all queries and keys, which "
            "MultiHeadAttention does not have");
  const json open = {{"model_type", "qwen3_like"}, {"head_dim", 64}, {"rope_theta", 10000}};
  const auto unknown = read_hf_config(
      open,
      {.pairing = posenc::PairingKind::HalfRotate, .rotary_share = 1, .softmax_scale = 0.125});
  CHECK_FALSE(attention_of_layer(unknown, 0).qk_norm);
  CHECK_THROWS_AS(qk_norm_of_layer(read_hf_config(config("qwen3")), 4), ConfigError);
}

TEST_CASE("qk_norm: a GGUF file gives the norm of queries and keys", "[interop][gguf][norm]") {
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
  CHECK(norm("llama") == QkNorm{});
  CHECK(norm("gemma2") == QkNorm{});
  CHECK_THROWS_AS(norm("maincoder"), ConfigError);
}

TEST_CASE("qk_norm: norms of other kinds are described", "[interop][hf][norm]") {
  const auto llama4 = described(config("llama4_text"));
  REQUIRE(llama4);
  CHECK(llama4->kind == LayerQkNormKind::Rms);
  CHECK(llama4->weights == LayerQkNormWeights::None);
  CHECK(llama4->is_after_rotation);
  CHECK(described(config("llama4_text"), 3) == LayerQkNorm{});  // no rotary encoding
  CHECK(described(config("llama4_text", {{"use_qk_norm", false}})) == LayerQkNorm{});
  const auto phi = described(config("phi", {{"qk_layernorm", true}}));
  REQUIRE(phi);
  CHECK(phi->kind == LayerQkNormKind::LayerNorm);
  CHECK(phi->has_bias);
  CHECK(described(config("phi")) == LayerQkNorm{});
  CHECK(described(config("persimmon", {{"rope_theta", 10000}}))->kind ==
        LayerQkNormKind::LayerNorm);
  CHECK(described(config("chameleon"))->weights == LayerQkNormWeights::FactorsPerHead);
  CHECK(described(config("chameleon"))->epsilon == 1e-5);
  CHECK(described(config("esmc"))->is_over_all_heads);
  const json mllama = config("mllama_text_model", {{"cross_attention_layers", {1}}});
  CHECK(described(mllama, 0) == LayerQkNorm{});
  CHECK(qk_norm_of_layer(read_hf_config(mllama), 1) ==
        QkNorm{QkNormOver::Head, QkNormWeight::Factor, 1e-5});
}

TEST_CASE("qk_norm: a key may choose the kind of the norm", "[interop][hf][norm]") {
  const auto molmo2 = [](const json& kind) {
    return described(
        config("molmo2_text",
               {{"rope_theta", 1000000}, {"num_key_value_heads", 8}, {"qk_norm_type", kind}}));
  };
  CHECK_FALSE(molmo2("qwen3")->is_over_all_heads);
  CHECK(molmo2("olmo")->is_over_all_heads);
  CHECK_FALSE(molmo2("other"));
  const json olmo = {{"d_model", 512}, {"n_heads", 8}, {"n_layers", 2}};
  const auto of_flag = [&](const json& flag) {
    json file = olmo;
    file["model_type"] = "hf_olmo";
    file["attention_layer_norm"] = flag;
    return described(file);
  };
  CHECK(of_flag(false) == LayerQkNorm{});
  CHECK(of_flag({}) == LayerQkNorm{});
  CHECK_FALSE(of_flag(true));
  const json bailing = {{"rope_theta", 10000}, {"rotary_dim", 64}, {"use_qk_norm", true}};
  CHECK(described(config("bailing_moe_v2", bailing))->kind == LayerQkNormKind::Rms);
  CHECK_FALSE(described(config("bailing_moe_v2", {{"rope_theta", 10000}, {"rotary_dim", 64}})));
}

TEST_CASE("qk_norm: every file of examples/configs gives a norm", "[interop][hf][norm]") {
  const std::map<std::string, QkNorm> norms = {
      {"gemma-3-4b.json", {QkNormOver::Head, QkNormWeight::FactorMinusOne, 1e-6}},
      {"qwen3-vl-2b.json", {QkNormOver::Head, QkNormWeight::Factor, 1e-6}}};
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(POSENC_SAMPLE_CONFIGS)) {
    const std::string name = entry.path().filename().string();
    INFO(name);
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const auto found = norms.find(name);
    CHECK(qk_norm_of_layer(read_hf_config(text), 0) ==
          (found == norms.end() ? QkNorm{} : found->second));
    ++files;
  }
  CHECK(files >= 10);
}

TEST_CASE("qk_norm: the default epsilon of every class that was found is known",
          "[interop][hf][norm]") {
  CHECK(read_hf_config(config("llama")).norm_epsilon == 1e-6);
  CHECK(read_hf_config(config("glm", {{"head_dim", 128}})).norm_epsilon == 1.5625e-7);
  CHECK(read_hf_config(config("gpt_neox")).norm_epsilon == 1e-5);
  CHECK(read_hf_config(config("llama", {{"rms_norm_eps", 1e-4}})).norm_epsilon == 1e-4);
  // Code that is beside the weights, and not in transformers. Its files have the key.
  constexpr std::string_view not_found =
      "aquila arctic bailing_moe bailing_moe_v2 baichuan chatglm codeshell deci deepseek dots_ocr "
      "Dream grok-1 grok-2 grove_moe hf_olmo hunyuan internlm internlm2 Klear llada "
      "longcat_flash_ngram megrez_moe mimo minicpm mixformer-sequential molmo nemotron-nas neobert "
      "openelm orion PanguEmbedded phi-msft phi3_v phi3small plamo plm qwen rnd1 skywork "
      "smallthinker solar stablelm_epoch telechat telechat2 telechat3 transformer xverse Yi "
      "youtu_llm";
  std::set<std::string_view> without, listed;
  posenc::detail::for_each_name(not_found, [&](std::string_view name) { listed.insert(name); });
  for_each_row([&without](const posenc::detail::HfModelType& row) {
    INFO(row.names);
    CHECK(row.norms.epsilon >= 0);
    CHECK(row.norms.epsilon <= 1e-5);
    if (row.norms.epsilon > 0) return;
    posenc::detail::for_each_name(row.names, [&](std::string_view name) { without.insert(name); });
  });
  CHECK(without == listed);
}

TEST_CASE("qk_norm: a GGUF file may lack the tensors of a norm", "[interop][gguf][norm]") {
  const auto norm = [](const std::string& architecture, const std::vector<std::string>& tensors,
                       std::uint32_t experts = 0) {
    support::GgufWriter writer;
    writer.architecture(architecture)
        .integer(architecture + ".embedding_length", 1024)
        .integer(architecture + ".attention.head_count", 8)
        .integer(architecture + ".block_count", 4)
        .integer(architecture + ".expert_count", experts)
        .real(architecture + ".attention.layer_norm_rms_epsilon", 0x1p-20F);
    for (const std::string& tensor : tensors) writer.floats(tensor, {1});
    return attention_of_layer(posenc::read_gguf(writer.bytes()), 0).qk_norm;
  };
  const std::string weight = "blk.0.attn_norm.weight", of_norm = "blk.0.attn_q_norm.weight";
  CHECK(norm("glm4moe", {weight, of_norm})->kind == LayerQkNormKind::Rms);
  CHECK(norm("glm4moe", {weight}) == LayerQkNorm{});
  CHECK_FALSE(norm("glm4moe", {}));
  CHECK(norm("command-r", {weight, of_norm})->kind == LayerQkNormKind::LayerNorm);
  CHECK(norm("llama4", {}, 16)->is_after_rotation);
  CHECK(norm("llama4", {}, 128) == LayerQkNorm{});
}

}  // namespace qk_norm_of_layer_test
