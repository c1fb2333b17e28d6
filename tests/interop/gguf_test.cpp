// SPDX-License-Identifier: MIT
// GGUF metadata is read as the settings with which llama.cpp runs the model.
#include "interop/gguf_writer.hpp"
#include "interop/settings.hpp"
#include "support/catch.hpp"
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/interop/presets.hpp>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace gguf_test {

using posenc::GgufOptions;
using posenc::Index;
using posenc::ModelSettings;
using posenc::PairingKind;
using posenc::read_gguf;
using posenc::YarnScaling;
using support::difference;
using support::GgufWriter;
namespace presets = posenc::presets;

namespace {

/// Returns a file with the keys that every file has.
GgufWriter model(const std::string& architecture, std::uint32_t head_dim, float base,
                 std::uint32_t context = 32768) {
  GgufWriter writer;
  writer.architecture(architecture)
      .integer(architecture + ".block_count", 12)
      .integer(architecture + ".context_length", context)
      .integer(architecture + ".embedding_length", 32 * head_dim)
      .integer(architecture + ".attention.head_count", 32)
      .real(architecture + ".rope.freq_base", base);
  return writer;
}

ModelSettings read(const GgufWriter& writer, const GgufOptions& options = {}) {
  return read_gguf(writer.bytes(), options);
}

GgufWriter yarn(const std::string& architecture, float factor = 40) {
  GgufWriter writer = model(architecture, 192, 10000, 163840);
  writer.integer(architecture + ".rope.dimension_count", 64)
      .text(architecture + ".rope.scaling.type", "yarn")
      .real(architecture + ".rope.scaling.factor", factor)
      .integer(architecture + ".rope.scaling.original_context_length", 4096);
  return writer;
}

/// Returns the difference of two models, except pairing and name, which differ in GGUF files.
std::string difference_of_rotary(const ModelSettings& file, const ModelSettings& preset) {
  auto expected = rotary(preset);
  expected.pairing = rotary(file).pairing;
  return difference(rotary(file), expected);
}

double relative(double value, double expected) { return std::abs(value / expected - 1); }

}  // namespace

TEST_CASE("read_gguf: the architecture decides the pairing", "[interop][gguf]") {
  CHECK(rotary(read(model("llama", 128, 10000))).pairing == PairingKind::Interleaved);
  CHECK(rotary(read(model("deepseek2", 128, 10000))).pairing == PairingKind::Interleaved);
  for (const char* name : {"qwen2", "qwen3", "phi3", "gemma2", "falcon", "gptneox", "olmo2"}) {
    CHECK(rotary(read(model(name, 128, 10000))).pairing == PairingKind::HalfRotate);
  }
  CHECK(rotary(read(model("llama", 128, 10000), {.pairing = PairingKind::HalfRotate})).pairing ==
        PairingKind::HalfRotate);
}

TEST_CASE("read_gguf: plain files equal the presets", "[interop][gguf]") {
  CHECK(difference_of_rotary(read(model("llama", 128, 500000)), presets::model("llama3_8b")) == "");
  CHECK(difference_of_rotary(read(model("qwen2", 128, 1000000)), presets::model("qwen2_5_7b")) ==
        "");
  auto neox = model("gptneox", 96, 10000).integer("gptneox.rope.dimension_count", 24);
  CHECK(difference_of_rotary(read(neox), presets::model("gpt_neox_20b")) == "");
  auto linear = model("llama", 128, 10000)
                    .text("llama.rope.scaling.type", "linear")
                    .real("llama.rope.scaling.factor", 4);
  const auto half = rotary(read(linear));
  CHECK(std::get<posenc::LinearScaling>(half.rule).factor == 4);
  for (const char* old : {"llama.rope.scale_linear", "llama.rope.scale"}) {
    CHECK(difference(rotary(read(model("llama", 128, 10000).real(old, 4))), half) == "");
  }
  CHECK(std::holds_alternative<posenc::Unscaled>(
      rotary(read(model("llama", 128, 10000)
                      .text("llama.rope.scaling.type", "none")
                      .real("llama.rope.scaling.factor", 4)))
          .rule));
  CHECK(read(model("granite", 128, 10000).real("granite.attention.scale", 0.5F)).softmax_scale ==
        0.5);
}

TEST_CASE("read_gguf: Llama 3's scaling is in a tensor", "[interop][gguf]") {
  const auto preset = rotary(presets::model("llama3_1_8b"));
  const auto expected = frequencies(preset).inv_freq();
  const auto plain = frequencies(rotary(presets::model("llama3_8b"))).inv_freq();
  std::vector<float> divisors;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    divisors.push_back(static_cast<float>(plain[i] / expected[i]));
  }
  auto writer = model("llama", 128, 500000, 131072);
  writer.floats("rope_freqs.weight", divisors);
  const auto found = frequencies(rotary(read(writer))).inv_freq();
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(relative(found[i], expected[i]) < 1e-7);

  writer.real("llama.rope.scaling.factor", 2);
  const auto scaled = frequencies(rotary(read(writer))).inv_freq();
  for (std::size_t i = 0; i < plain.size(); ++i) CHECK(relative(scaled[i], expected[i] / 2) < 1e-7);
}

TEST_CASE("read_gguf: LongRoPE's divisors are in two tensors", "[interop][gguf]") {
  const std::vector<float> shorter(48, 1.5F), longer(48, 3);
  for (const bool named : {true, false}) {
    auto writer = model("phi3", 96, 10000, 131072);
    if (named) writer.text("phi3.rope.scaling.type", "longrope");
    writer.integer("phi3.rope.scaling.original_context_length", 4096)
        .real("phi3.rope.scaling.attn_factor", 1.25F)
        .floats("rope_factors_long.weight", longer)
        .floats("rope_factors_short.weight", shorter);
    const auto settings = rotary(read(writer));
    CHECK(frequencies(settings, 4096).inv_freq()[0] == 1 / 1.5);
    CHECK(frequencies(settings, 4097).inv_freq()[0] == 1 / 3.0);
    CHECK(frequencies(settings, 4097).attention_factor() == 1.25);
  }
}

TEST_CASE("read_gguf: YaRN's factor is relative to its own magnitude", "[interop][gguf]") {
  const double own = posenc::yarn_mscale(40);
  const auto factor_of = [](const GgufWriter& writer, const GgufOptions& options = {}) {
    return frequencies(rotary(read(writer, options))).attention_factor();
  };
  CHECK(factor_of(yarn("qwen2")) == own);
  CHECK(relative(factor_of(yarn("qwen2").real("qwen2.rope.scaling.attn_factor", 0.5F)), own / 2) <
        1e-15);
  // A running llama.cpp ignores it.
  CHECK_THROWS_AS(factor_of(yarn("grok").real("grok.rope.scaling.yarn_attn_factor", 0.5F)),
                  posenc::ConfigError);

  // A value that is YaRN's own magnitude is the final factor in OLMo's files, and ambiguous
  // elsewhere.
  const auto with_own = [own](const std::string& architecture) {
    return yarn(architecture)
        .real(architecture + ".rope.scaling.attn_factor", static_cast<float>(own));
  };
  CHECK(relative(factor_of(with_own("olmo2")), own) < 1e-7);
  CHECK_THROWS_AS(factor_of(with_own("qwen2")), posenc::ConfigError);
  using enum posenc::GgufAttentionFactor;
  CHECK(relative(factor_of(with_own("qwen2"), {.attn_factor = Final}), own) < 1e-7);
  CHECK(relative(factor_of(with_own("qwen2"), {.attn_factor = Relative}), own * own) < 1e-7);
  CHECK(factor_of(yarn("qwen2").real("qwen2.rope.scaling.attn_factor", 2),
                  {.attn_factor = Final}) == 2);
}

TEST_CASE("read_gguf: gpt-oss keeps its ramp's fractions", "[interop][gguf]") {
  auto writer = model("gpt-oss", 64, 150000, 131072);
  writer.text("gpt-oss.rope.scaling.type", "yarn")
      .real("gpt-oss.rope.scaling.factor", 32)
      .integer("gpt-oss.rope.scaling.original_context_length", 4096);
  CHECK(difference(rotary(read(writer)), rotary(presets::model("gpt_oss"))) == "");
}

TEST_CASE("read_gguf: DeepSeek's log multiplier is a tenth of mscale_all_dim", "[interop][gguf]") {
  const auto v2 =
      read(yarn("deepseek2").real("deepseek2.rope.scaling.yarn_log_multiplier", 0.0707F));
  const auto f2 = frequencies(rotary(v2));
  CHECK(f2.attention_factor() == 1);
  CHECK(relative(f2.softmax_scale_multiplier(),
                 rope(presets::model("deepseek_v2")).softmax_scale_multiplier()) < 1e-7);
  CHECK(rotary(v2).rotary_offset == 128);
  CHECK(posenc::detail::exact_inv_freq(f2).size() == 32);

  const auto v3 = read(yarn("deepseek2").real("deepseek2.rope.scaling.yarn_log_multiplier", 0.1F));
  CHECK(relative(frequencies(rotary(v3)).softmax_scale_multiplier(), 1.8739) < 1e-4);
  CHECK(frequencies(rotary(v3)).inv_freq() ==
        frequencies(rotary(presets::model("deepseek_v3"))).inv_freq());

  // The absorbed form has wide keys and a separate key for the head's width.
  auto absorbed = yarn("deepseek2");
  absorbed.integer("deepseek2.attention.key_length", 576)
      .integer("deepseek2.attention.key_length_mla", 192)
      .real("deepseek2.rope.scaling.yarn_log_multiplier", 0.1F);
  CHECK(difference(rotary(read(absorbed)), rotary(v3)) == "");

  // Mistral 3 stores mscale_all_dim directly, and its attention does not use it.
  const auto mistral = frequencies(
      rotary(read(yarn("mistral3").real("mistral3.rope.scaling.yarn_log_multiplier", 1))));
  CHECK(mistral.attention_factor() == 1);
  CHECK(mistral.softmax_scale_multiplier() == 1);
}

TEST_CASE("read_gguf: local layers have a rope of their own", "[interop][gguf]") {
  auto writer = model("gemma3", 256, 1000000, 131072);
  writer.integer("gemma3.attention.sliding_window", 1024)
      .text("gemma3.rope.scaling.type", "linear")
      .real("gemma3.rope.scaling.factor", 8);
  const auto gemma = read(writer), preset = presets::model("gemma3_4b");
  for (const char* type : {"full_attention", "sliding_attention"}) {
    CHECK(difference(rotary(gemma, type), rotary(preset, type)) == "");
  }
  CHECK(gemma.layer_types ==
        std::vector<std::string>(preset.layer_types.begin(), preset.layer_types.begin() + 12));

  const auto other =
      read(writer.real("gemma3.rope.freq_base_swa", 5000)
               .array<std::uint8_t>("gemma3.attention.sliding_window_pattern", GgufWriter::Bool,
                                    {1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0}));
  CHECK(std::get<posenc::Unscaled>(rotary(other, "sliding_attention").rule).base == 5000);
  CHECK(other.layer_types[0] == "sliding_attention");
  CHECK(other.layer_types[1] == "full_attention");
}

TEST_CASE("read_gguf: Gemma 4's global layers rotate few pairs", "[interop][gguf]") {
  std::vector<float> divisors(256, 1e30F);
  std::fill(divisors.begin(), divisors.begin() + 64, 1.0F);
  auto writer = model("gemma4", 512, 1000000, 131072);
  writer.integer("gemma4.attention.sliding_window", 1024)
      .integer("gemma4.attention.key_length", 512)
      .integer("gemma4.attention.key_length_swa", 256)
      .integer("gemma4.rope.dimension_count", 512)
      .integer("gemma4.rope.dimension_count_swa", 256)
      .real("gemma4.rope.freq_base_swa", 10000)
      .floats("rope_freqs.weight", divisors);
  const auto found = read(writer), preset = presets::gemma4(12);
  CHECK(difference(rotary(found, "sliding_attention"), rotary(preset, "sliding_attention")) == "");
  const auto w = frequencies(rotary(found, "full_attention")).inv_freq();
  const auto expected = frequencies(rotary(preset, "full_attention")).inv_freq();
  for (std::size_t i = 0; i < w.size(); ++i) CHECK(std::abs(w[i] - expected[i]) < 1e-29);
}

TEST_CASE("read_gguf: DeepSeek-V4's layers with compressed keys have a base of their own",
          "[interop][gguf]") {
  auto writer = model("deepseek4", 512, 10000, 1048576);
  writer.integer("deepseek4.attention.key_length", 512)
      .integer("deepseek4.attention.head_count_kv", 1)
      .integer("deepseek4.attention.sliding_window", 128)
      .integer("deepseek4.rope.dimension_count", 64)
      .text("deepseek4.rope.scaling.type", "yarn")
      .real("deepseek4.rope.scaling.factor", 16)
      .integer("deepseek4.rope.scaling.original_context_length", 65536);
  const auto without_base = writer;
  writer.real("deepseek4.attention.compress_rope_freq_base", 160000);
  constexpr auto key = "deepseek4.attention.compress_ratios";
  const std::vector<std::int32_t> ratios{0, 0, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 0};
  const auto found = read(GgufWriter(writer).array(key, GgufWriter::Int32, ratios));
  auto preset = presets::model("deepseek_v4_flash");
  preset.layer_types.resize(12);
  for (const char* type : {"sliding_attention", "compressed"}) {
    CHECK(difference(rotary(found, type), rotary(preset, type)) == "");
  }
  CHECK(found.layer_types == preset.layer_types);
  for (const Index number : {0, 2}) {
    const auto& layer = attention_of_layer(found, number);
    CHECK(layer.kind == (number == 0 ? posenc::LayerKind::Sliding : posenc::LayerKind::Compressed));
    CHECK(layer.window == posenc::LayerWindow{posenc::WindowKind::Sliding, 128});
    CHECK(layer.output_inverse_rotated);
    CHECK(layer.sinks == true);
    CHECK(layer.kv_heads == 1);
  }
  const auto check_rejected = [](const GgufWriter& of, const std::string& message) {
    CHECK_THROWS_MATCHES(read(of), posenc::ConfigError,
                         Catch::Matchers::Message("posenc::read_gguf: deepseek4." + message));
  };
  const std::vector<std::int32_t> shorter(11, 0);
  check_rejected(GgufWriter(writer).array(key, GgufWriter::Int32, shorter),
                 "attention.compress_ratios must have an entry for each layer");
  check_rejected(GgufWriter(without_base).array(key, GgufWriter::Int32, ratios),
                 "attention.compress_rope_freq_base is missing");
  check_rejected(GgufWriter(writer)
                     .array(key, GgufWriter::Int32, ratios)
                     .real("deepseek4.rope.scaling.attn_factor", 2),
                 "rope.scaling.attn_factor has no effect in this architecture, whose factor is "
                 "always 1");
  CHECK_THROWS_AS(
      read(model("llama", 128, 10000).real("llama.attention.compress_rope_freq_base", 160000)),
      posenc::ConfigError);
}

TEST_CASE("read_gguf: Step 3.5's global layers use half of the tensor's divisors",
          "[interop][gguf]") {
  std::vector<float> divisors(64, 2);
  for (std::size_t i = 32; i < 64; ++i) divisors[i] = 1000;
  auto writer = model("step35", 128, 10000);
  writer.integer("step35.attention.sliding_window", 512).floats("rope_freqs.weight", divisors);
  const auto found = read(writer);
  const auto& global = std::get<posenc::DivisorScaling>(rotary(found, "full_attention").rule);
  CHECK(global.divisors == std::vector<double>(32, 2));
  CHECK(std::holds_alternative<posenc::Unscaled>(rotary(found, "sliding_attention").rule));
}

TEST_CASE("read_gguf: local layers with a base of their own keep attn_factor", "[interop][gguf]") {
  auto writer = model("spark2_5", 128, 10000);
  writer.integer("spark2_5.attention.sliding_window", 512)
      .real("spark2_5.rope.freq_base_swa", 500)
      .real("spark2_5.rope.scaling.attn_factor", 2);
  const auto local = rotary(read(writer), "sliding_attention");
  CHECK(frequencies(local).attention_factor() == 2);
  CHECK(std::get<posenc::DivisorScaling>(local.rule).base == 500);
}

TEST_CASE("read_gguf: sections make axes", "[interop][gguf]") {
  const auto sections = [](const std::string& architecture, const std::vector<std::int32_t>& list) {
    return model(architecture, 128, 1000000)
        .array(architecture + ".rope.dimension_sections", GgufWriter::Int32, list);
  };
  CHECK(difference_of_rotary(read(sections("qwen2vl", {16, 24, 24, 0})),
                             presets::model("qwen2_vl_2b")) == "");
  CHECK(rotary(read(sections("qwen3vl", {24, 20, 20, 0}))).axes ==
        posenc::mrope_interleaved({24, 20, 20}, posenc::MropeTail::Fourth));
  CHECK(rotary(read(sections("glm4", {16, 24, 24, 0}))).pairing == PairingKind::HalfRotate);
  CHECK(rotary(read(model("glm4", 128, 10000))).pairing == PairingKind::Interleaved);
  CHECK(rotary(read(sections("llama", {0, 0, 0, 0}))).axes.plain());
}

TEST_CASE("read_gguf: layers without rotary encoding are named", "[interop][gguf]") {
  CHECK(read(model("llama4", 128, 500000)).layers_without_rotary == std::vector<Index>{3, 7, 11});
}

TEST_CASE("read_gguf: a path, bytes and a parsed file read alike", "[interop][gguf]") {
  const auto path = std::filesystem::temp_directory_path() / "posenc_gguf_test.gguf";
  const auto bytes = model("llama", 128, 500000).bytes();
  {
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }
  CHECK(difference(read_gguf(path), read_gguf(bytes)) == "");
  CHECK(difference(read_gguf(posenc::GgufFile::from_path(path)), read_gguf(bytes)) == "");
  std::filesystem::remove(path);
}

}  // namespace gguf_test
