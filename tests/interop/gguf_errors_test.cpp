// SPDX-License-Identifier: MIT
// Errors of the reader of GGUF files, key by key.
#include "interop/gguf_writer.hpp"
#include "support/catch.hpp"
#include <posenc/interop/gguf.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace gguf_errors_test {

using Catch::Matchers::Message;
using posenc::ConfigError;
using posenc::read_gguf;
using support::GgufWriter;

namespace {

GgufWriter model(const std::string& architecture = "llama") {
  GgufWriter writer;
  writer.architecture(architecture)
      .integer(architecture + ".block_count", 12)
      .integer(architecture + ".context_length", 4096)
      .integer(architecture + ".embedding_length", 4096)
      .integer(architecture + ".attention.head_count", 32);
  return writer;
}

GgufWriter yarn() {
  return model().text("llama.rope.scaling.type", "yarn").real("llama.rope.scaling.factor", 4);
}

void check_rejected(const GgufWriter& writer, const std::string& message) {
  CHECK_THROWS_MATCHES(read_gguf(writer.bytes()), ConfigError, Message("posenc::" + message));
}

}  // namespace

TEST_CASE("read_gguf errors: unknown names are rejected", "[interop][gguf]") {
  CHECK_NOTHROW(read_gguf(model().bytes()));
  CHECK_NOTHROW(read_gguf(yarn().bytes()));
  check_rejected(GgufWriter(), "read_gguf: general.architecture is missing");
  check_rejected(model("bloom"), "read_gguf: 'bloom' has no rotary encoding: it has ALiBi");
  check_rejected(model().text("llama.rope.scaling.type", "dynamic"),
                 "read_gguf: llama.rope.scaling.type has the unknown value 'dynamic'");
  check_rejected(model().real("llama.rope.scaling.alpha", 2),
                 "read_gguf: the key llama.rope.scaling.alpha is unknown");
  check_rejected(model().text("llama.rope.freq_base", "10000"),
                 "read_gguf: llama.rope.freq_base must be a number");
}

TEST_CASE("read_gguf errors: invalid widths are rejected", "[interop][gguf]") {
  check_rejected(GgufWriter().architecture("llama"),
                 "read_gguf: llama.attention.key_length is missing, and so is embedding_length or "
                 "attention.head_count");
  const std::string width = " must be even and from 2 to 65536, but makes it ";
  CHECK_NOTHROW(read_gguf(model().integer("llama.rope.dimension_count", 2).bytes()));
  check_rejected(model().integer("llama.rope.dimension_count", 63),
                 "read_gguf: llama.rope.dimension_count" + width + "63");
  check_rejected(model().integer("llama.rope.dimension_count", 0),
                 "read_gguf: llama.rope.dimension_count" + width + "0");
  check_rejected(model().integer("llama.rope.dimension_count", 256),
                 "RotarySettings: rotary_offset 0 and rotary_dim 256 do not fit into head_dim 128");
  check_rejected(model().integer("llama.attention.key_length", 4000000000),
                 "read_gguf: llama.attention.key_length" + width + "4000000000");
  GgufWriter differing;
  differing.architecture("llama").integer("llama.embedding_length", 4096);
  differing.array<std::uint32_t>("llama.attention.head_count", GgufWriter::UInt32, {32, 16});
  check_rejected(
      differing,
      "read_gguf: llama.attention.head_count differs between layers, and there is no key_length");
  GgufWriter none;
  none.architecture("llama").integer("llama.embedding_length", 64);
  none.integer("llama.attention.head_count", 0);
  check_rejected(none, "read_gguf: llama.attention.head_count must be positive");
}

TEST_CASE("read_gguf errors: invalid values are rejected", "[interop][gguf]") {
  check_rejected(model().real("llama.rope.freq_base", 0.5F),
                 "Unscaled: base must be set, finite and greater than 1, but is 0.5");
  // As a converter of ollama 0.17.4 writes (findings/ollama-base-of-zero.sh).
  check_rejected(model().real("llama.rope.freq_base", 0),
                 "Unscaled: base must be set, finite and greater than 1, but is 0");
  // Rejected before the factor enters any formula.
  check_rejected(
      yarn().real("llama.rope.scaling.yarn_beta_fast", std::numeric_limits<float>::infinity()),
      "read_gguf: llama.rope.scaling.yarn_beta_fast must be finite but is inf");
  check_rejected(model()
                     .text("llama.rope.scaling.type", "yarn")
                     .real("llama.rope.scaling.factor", std::numeric_limits<float>::quiet_NaN()),
                 "read_gguf: llama.rope.scaling.factor must be finite but is nan");
  check_rejected(model().real("llama.rope.scaling.factor", -2),
                 "LinearScaling: factor must be set, finite and at least 1, but is -2");
  check_rejected(model().real("llama.rope.scaling.factor", 2).real("llama.rope.scale_linear", 4),
                 "read_gguf: llama.rope.scale_linear contradicts another name of the factor");
  check_rejected(model().floats("rope_freqs.weight", std::vector<float>(63, 1)),
                 "read_gguf: the tensor rope_freqs.weight has 63 elements but there are 64 pairs");
  check_rejected(model().floats("rope_freqs.weight", std::vector<float>(64, -1)),
                 "DivisorScaling: divisors must be positive and finite but has -1");
}

TEST_CASE("read_gguf errors: misleading keys of YaRN are rejected", "[interop][gguf]") {
  check_rejected(yarn().real("llama.rope.scaling.yarn_ext_factor", 0.5F),
                 "read_gguf: llama.rope.scaling.yarn_ext_factor is not 1, which is not supported");
  check_rejected(
      yarn().real("llama.rope.scaling.yarn_log_multiplier", 0.1F),
      "read_gguf: llama.rope.scaling.yarn_log_multiplier has a meaning that differs between "
      "architectures and is unknown for this one");
  check_rejected(
      yarn().real("llama.rope.scaling.attn_factor", static_cast<float>(posenc::yarn_mscale(4))),
      "read_gguf: llama.rope.scaling.attn_factor is YaRN's own magnitude: it is either counted "
      "twice or the final factor; choose one in the options");
  check_rejected(yarn().floats("rope_freqs.weight", std::vector<float>(64, 1)),
                 "read_gguf: YaRN together with tensors of divisors is not supported");
  check_rejected(model().real("llama.rope.scaling.yarn_beta_fast", 16),
                 "read_gguf: llama.rope.scaling.yarn_beta_fast has no effect, because the scaling "
                 "is not of the type yarn");
}

TEST_CASE("read_gguf errors: tensors of LongRoPE that do not belong together are rejected",
          "[interop][gguf]") {
  const std::vector<float> divisors(64, 2);
  const std::string together =
      "read_gguf: there must be rope_factors_long.weight and rope_factors_short.weight, or "
      "rope_freqs.weight, or none of them";
  check_rejected(model().floats("rope_factors_long.weight", divisors), together);
  check_rejected(model()
                     .floats("rope_factors_long.weight", divisors)
                     .floats("rope_factors_short.weight", divisors)
                     .floats("rope_freqs.weight", divisors),
                 together);
  check_rejected(model().text("llama.rope.scaling.type", "longrope"),
                 "read_gguf: the type longrope needs the tensors rope_factors_long.weight and "
                 "rope_factors_short.weight");
  check_rejected(model()
                     .floats("rope_factors_long.weight", divisors)
                     .floats("rope_factors_short.weight", divisors)
                     .real("llama.rope.scaling.factor", 2),
                 "read_gguf: llama.rope.scaling.factor contradicts the tensors of LongRoPE");
}

TEST_CASE("read_gguf errors: sections that do not fit are rejected", "[interop][gguf]") {
  const auto sections = [](const std::string& architecture, const std::vector<std::int32_t>& list) {
    return model(architecture)
        .array(architecture + ".rope.dimension_sections", GgufWriter::Int32, list);
  };
  check_rejected(model("qwen2vl"), "read_gguf: qwen2vl.rope.dimension_sections is missing");
  check_rejected(
      sections("llama", {16, 24, 24, 0}),
      "read_gguf: llama.rope.dimension_sections is given, but this architecture has one axis");
  check_rejected(
      sections("qwen2vl", {2000000000, 2000000000, 0, 0}),
      "read_gguf: qwen2vl.rope.dimension_sections must have no negative entry and add up to 64");
  check_rejected(
      sections("qwen2vl", {-1, 65, 0, 0}),
      "read_gguf: qwen2vl.rope.dimension_sections must have no negative entry and add up to 64");
  check_rejected(
      sections("qwen2vl", {16, 24, 20, 0}),
      "RotarySettings: the table of axes is for 60 pairs but there are frequencies for 64");
}

TEST_CASE("read_gguf errors: keys that llama.cpp reads otherwise than they say are rejected",
          "[interop][gguf]") {
  check_rejected(
      model("gpt-oss").integer("gpt-oss.attention.sliding_window", 0),
      "read_gguf: gpt-oss.attention.sliding_window is 0, for which llama.cpp masks every "
      "key of local layers");
  check_rejected(model("gemma3")
                     .integer("gemma3.attention.sliding_window", 512)
                     .integer("gemma3.rope.dimension_count_swa", 64),
                 "read_gguf: gemma3.rope.dimension_count_swa is not known to be used by this "
                 "architecture");
  check_rejected(model("deepseek2").real("deepseek2.rope.scaling.factor", 4),
                 "read_gguf: deepseek2.rope.scaling.factor is not 1, for which llama.cpp scales "
                 "scores of this architecture even without YaRN");
  check_rejected(yarn().real("llama.rope.scaling.yarn_attn_factor", 0.5F),
                 "read_gguf: llama.rope.scaling.yarn_attn_factor is not 1, and it has no effect in "
                 "llama.cpp");
  const auto narrow = model().integer("llama.attention.key_length", 64);
  auto same = narrow, other = narrow;
  CHECK_NOTHROW(read_gguf(same.real("llama.attention.scale", 0.125F).bytes()));
  check_rejected(
      other.real("llama.attention.scale", 0.25F),
      "read_gguf: llama.attention.scale contradicts the scale of this architecture, 0.125");
}

TEST_CASE("read_gguf errors: unknown local layers are rejected", "[interop][gguf]") {
  check_rejected(
      model().real("llama.rope.freq_base_swa", 10000),
      "read_gguf: llama.rope.freq_base_swa has no effect without attention.sliding_window");
  check_rejected(model("spark2_5")
                     .integer("spark2_5.attention.sliding_window", 512)
                     .real("spark2_5.rope.freq_base_swa", 10000)
                     .floats("rope_freqs.weight", std::vector<float>(64, 2)),
                 "read_gguf: whether scaling applies to the local layers of 'spark2_5' is unknown");
  check_rejected(model()
                     .integer("llama.attention.sliding_window", 512)
                     .real("llama.rope.freq_base_swa", 10000),
                 "read_gguf: llama.attention.sliding_window_pattern must be set and positive");
  check_rejected(
      model("gemma3")
          .integer("gemma3.attention.sliding_window", 512)
          .array<std::uint8_t>("gemma3.attention.sliding_window_pattern", GgufWriter::Bool, {1, 0}),
      "read_gguf: gemma3.attention.sliding_window_pattern must have one entry per layer");
  GgufWriter layers;
  layers.architecture("llama4").integer("llama4.attention.key_length", 128);
  check_rejected(layers, "read_gguf: llama4.block_count must be set and lie between 1 and 65536");
}

TEST_CASE("read_gguf errors: rules of single architectures reject keys by name",
          "[interop][gguf]") {
  struct Case {
    std::string architecture, key;
    std::uint32_t value;
    const char* message;
  };
  for (const Case& c : std::vector<Case>{
           {"qwen3next", "nextn_predict_layers", 13, "must lie between 0 and block_count"},
           {"exaone4", "nextn_predict_layers", 13, "must lie between 0 and block_count"},
           {"cohere2moe", "leading_dense_block_count", 13, "must lie between 0 and block_count"},
           {"llama", "attention.recurrent_layers", 1, "is not known for this architecture"},
           {"baichuan", "block_count", 12,
            "is 12: of this architecture, only models of 32 layers have a rotary encoding"},
       }) {
    auto writer = model(c.architecture);
    if (c.key != "block_count") writer.integer(c.architecture + "." + c.key, c.value);
    check_rejected(writer, "read_gguf: " + c.architecture + "." + c.key + " " + c.message);
  }
  constexpr auto least = (std::numeric_limits<std::int64_t>::min)();
  check_rejected(model("exaone4").number("exaone4.nextn_predict_layers", GgufWriter::Int64, least),
                 "read_gguf: exaone4.nextn_predict_layers must lie between 0 and block_count");
  for (const std::string name : {"cogvlm", "deepseek2-ocr"}) {
    const std::string without = " has no effect on the rotation of this architecture";
    check_rejected(model(name).text(name + ".rope.scaling.type", "linear"),
                   "read_gguf: " + name + ".rope.scaling.type" + without);
    for (const std::string key :
         {"rope.scaling.factor", "rope.scale_linear", "rope.scale", "rope.scaling.attn_factor"}) {
      check_rejected(model(name).real(name + "." + key, 4),
                     "read_gguf: " + name + "." + key + without);
    }
    check_rejected(model(name).integer(name + ".rope.dimension_count", 64),
                   "read_gguf: " + name +
                       ".rope.dimension_count is not the width of a head, all "
                       "of which llama.cpp rotates");
  }
  for (const std::string name : {"cogvlm", "falcon-h1", "llada", "pangu-embedded"}) {
    check_rejected(
        model(name).floats("rope_freqs.weight", std::vector<float>(64, 2)),
        "read_gguf: the tensor rope_freqs.weight has no effect in the architecture '" + name + "'");
  }
  check_rejected(model("gemma4"),
                 "read_gguf: the tensor rope_freqs.weight is missing, which the architecture "
                 "'gemma4' needs");
  check_rejected(model("glm-dsa")
                     .text("glm-dsa.rope.scaling.type", "yarn")
                     .real("glm-dsa.rope.scaling.factor", 4)
                     .real("glm-dsa.rope.scaling.yarn_log_multiplier", 0.1F),
                 "read_gguf: glm-dsa.rope.scaling.factor is not 1, for which llama.cpp scales "
                 "scores of this architecture by a magnitude that no key corrects");
  for (const std::string name : {"cohere2", "exaone-moe", "olmo2"}) {
    check_rejected(model(name)
                       .integer(name + ".attention.sliding_window", 1024)
                       .real(name + ".rope.freq_base_swa", 20000),
                   "read_gguf: " + name +
                       ".rope.freq_base_swa is not rope.freq_base, which "
                       "llama.cpp uses in all layers");
  }
  check_rejected(
      model("mellum")
          .integer("mellum.attention.sliding_window", 1024)
          .real("mellum.rope.freq_base_swa", 20000),
      "read_gguf: mellum.rope.freq_base_swa is not rope.freq_base, which llama.cpp uses in all "
      "layers");
  auto writer = GgufWriter().architecture("llama");
  writer.integer("llama.attention.key_length", 128).text("llama.rope.scaling.type", "yarn");
  check_rejected(writer.real("llama.rope.scaling.factor", 4),
                 "read_gguf: llama.context_length is missing");
}

}  // namespace gguf_errors_test
