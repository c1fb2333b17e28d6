// SPDX-License-Identifier: MIT
// Heads and window of a layer, from GGUF metadata and from llama.cpp's code of each architecture.
#include "interop/gguf_writer.hpp"
#include "support/catch.hpp"
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/multimodal_axes.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gguf_attention_test {

using Catch::Matchers::Message;
using posenc::ConfigError;
using posenc::Index;
using posenc::LayerAttention;
using posenc::LayerKind;
using posenc::LayerWindow;
using posenc::read_gguf;
using posenc::WindowKind;
using support::GgufWriter;

GgufWriter model(const std::string& name, std::uint32_t layers = 6) {
  GgufWriter writer;
  return writer.architecture(name)
      .integer(name + ".block_count", layers)
      .integer(name + ".embedding_length", 4096);
}

GgufWriter with_heads(const std::string& name, std::uint32_t layers = 6) {
  return model(name, layers).integer(name + ".attention.head_count", 32);
}

GgufWriter windowed(const std::string& name, std::uint32_t size) {
  return with_heads(name).integer(name + ".attention.sliding_window", size);
}

LayerAttention layer(const GgufWriter& writer, Index number = 0) {
  return attention_of_layer(read_gguf(writer.bytes()), number);
}

std::vector<Index> windows(const GgufWriter& writer, WindowKind kind = WindowKind::Sliding) {
  std::vector<Index> sizes;
  for (const LayerAttention& one : read_gguf(writer.bytes()).attention) {
    REQUIRE(one.window.has_value());
    if (one.window->kind != WindowKind::None) CHECK(one.window->kind == kind);
    sizes.push_back(one.window->size);
  }
  return sizes;
}

TEST_CASE("read_gguf attention: heads and widths of a GGUF file", "[interop][gguf]") {
  const auto llama = layer(with_heads("llama"));
  CHECK(llama.heads == 32);
  CHECK(llama.kv_heads == 32);
  CHECK(llama.head_dim == 128);
  CHECK(llama.value_dim == 128);
  CHECK(llama.sinks == false);
  CHECK(llama.kind == LayerKind::Global);
  CHECK(layer(with_heads("llama").integer("llama.attention.head_count_kv", 8)).kv_heads == 8);
  const auto wide = with_heads("llama").integer("llama.attention.key_length", 64);
  CHECK(layer(wide).value_dim == std::nullopt);
  auto both = wide;
  CHECK(layer(both.integer("llama.attention.value_length", 32)).value_dim == 32);

  const auto latent = layer(with_heads("deepseek2")
                                .integer("deepseek2.attention.head_count_kv", 1)
                                .integer("deepseek2.attention.key_length", 576)
                                .integer("deepseek2.attention.value_length", 512)
                                .integer("deepseek2.attention.key_length_mla", 192)
                                .integer("deepseek2.attention.value_length_mla", 128)
                                .integer("deepseek2.rope.dimension_count", 64));
  CHECK(latent.kv_heads == 32);
  CHECK(latent.head_dim == 192);
  CHECK(latent.value_dim == 128);
}

TEST_CASE("read_gguf attention: layers without heads are layers of another kind",
          "[interop][gguf]") {
  auto lfm = with_heads("lfm2", 2);
  lfm.array<std::uint32_t>("lfm2.attention.head_count_kv", GgufWriter::UInt32, {0, 8});
  CHECK(layer(lfm, 0).kind == LayerKind::Convolution);
  CHECK(layer(lfm, 0).heads == std::nullopt);
  CHECK(layer(lfm, 1).kind == LayerKind::Global);
  CHECK(layer(lfm, 1).kv_heads == 8);
  auto deci = with_heads("deci", 2);
  deci.array<std::uint32_t>("deci.attention.head_count_kv", GgufWriter::UInt32, {0, 8});
  CHECK(layer(deci, 0).kind == LayerKind::None);
  const auto qwen = with_heads("qwen3next", 4);
  CHECK(layer(qwen, 2).kind == LayerKind::Linear);
  CHECK(layer(qwen, 3).kind == LayerKind::Global);
}

TEST_CASE("read_gguf attention: windows as llama.cpp has them", "[interop][gguf]") {
  CHECK(windows(with_heads("llama")) == std::vector<Index>(6, 0));
  CHECK(windows(windowed("gemma2", 512)) == std::vector<Index>{512, 0, 512, 0, 512, 0});
  CHECK(windows(with_heads("gemma2")) == std::vector<Index>{4096, 0, 4096, 0, 4096, 0});
  CHECK(windows(windowed("gemma3", 512)) == std::vector<Index>{512, 512, 512, 512, 512, 0});
  CHECK(windows(with_heads("gemma3")) == std::vector<Index>(6, 0));
  CHECK(windows(windowed("gpt-oss", 128)) == std::vector<Index>{128, 0, 128, 0, 128, 0});
  CHECK(layer(windowed("gpt-oss", 128)).sinks == true);
  CHECK(windows(with_heads("llama4"), WindowKind::Chunked) ==
        std::vector<Index>{8192, 8192, 8192, 0, 8192, 8192});
  CHECK(windows(windowed("gemma-embedding", 512), WindowKind::BothSides) ==
        std::vector<Index>{512, 512, 512, 512, 512, 0});
  auto listed = windowed("gemma2", 512);
  listed.array<std::uint8_t>("gemma2.attention.sliding_window_pattern", GgufWriter::Bool,
                             {0, 0, 0, 1, 1, 1});
  CHECK(windows(listed) == std::vector<Index>{0, 0, 0, 512, 512, 512});

  // llama.cpp reads the key and ignores it. For gpt-oss it is required.
  CHECK(layer(windowed("phi3", 2047)).window == std::nullopt);
  CHECK(layer(windowed("phi3", 2047)).kind == std::nullopt);
  CHECK(layer(with_heads("gpt-oss")).window == std::nullopt);
}

TEST_CASE(
    "read_gguf attention: global layers without rotation, and models whose size tells the windows",
    "[interop][gguf]") {
  const auto turns = [](const posenc::ModelSettings& of, Index number) {
    return rotary_of_layer(of, number) != nullptr;
  };
  const auto afmoe = read_gguf(windowed("afmoe", 2048).bytes());
  CHECK(turns(afmoe, 2));
  CHECK_FALSE(turns(afmoe, 3));
  CHECK(attention_of_layer(afmoe, 2).window == LayerWindow{WindowKind::Sliding, 2048});
  CHECK(attention_of_layer(afmoe, 3).window == LayerWindow{});
  CHECK(windows(with_heads("afmoe")) == std::vector<Index>(6, 0));
  const auto moe = read_gguf(windowed("exaone-moe", 128).bytes());
  CHECK_FALSE(turns(moe, 3));

  const auto large = read_gguf(with_heads("exaone4", 64).bytes());
  CHECK(turns(large, 0));
  CHECK_FALSE(turns(large, 63));
  CHECK(attention_of_layer(large, 0).window == LayerWindow{WindowKind::Sliding, 4096});
  const auto small = read_gguf(windowed("exaone4", 4096).bytes());
  CHECK(turns(small, 3));
  CHECK(attention_of_layer(small, 0).window == LayerWindow{});
  for (const std::string name : {"llama-embed", "maincoder"}) {
    CHECK(rotary(read_gguf(with_heads(name).bytes())).pairing == posenc::PairingKind::Interleaved);
  }
  for (const std::string name : {"pangu-embedded", "rnd1"}) {
    CHECK(rotary(read_gguf(with_heads(name).bytes())).pairing == posenc::PairingKind::HalfRotate);
  }
}

TEST_CASE("read_gguf attention: a file that does not count its layers", "[interop][gguf]") {
  const auto alike = [](const std::string& name) {
    GgufWriter writer;
    writer.architecture(name)
        .integer(name + ".embedding_length", 4096)
        .integer(name + ".attention.head_count", 32);
    return read_gguf(writer.bytes());
  };
  CHECK(attention_of_layer(alike("llama"), 7).heads == 32);
  CHECK(alike("llama").layer_count == 0);
  CHECK(alike("gemma2").attention.empty());
}

TEST_CASE("read_gguf attention: invalid heads are rejected", "[interop][gguf]") {
  CHECK_THROWS_MATCHES(
      layer(with_heads("llama").integer("llama.attention.head_count_kv", 5)), ConfigError,
      Message(
          "posenc::ModelSettings: the 32 heads of layer 0 are not a multiple of its 5 kv_heads"));
}

TEST_CASE("read_gguf attention: architectures whose first layer of each period is global",
          "[interop][gguf]") {
  const std::string window = ".attention.sliding_window";
  const auto bases = [](const GgufWriter& writer, Index number) {
    const auto read = read_gguf(writer.bytes());
    return std::get<posenc::Unscaled>(rotary_of_layer(read, number)->rule).base;
  };
  auto bert = windowed("modern-bert", 128).real("modern-bert.rope.freq_base", 160000);
  CHECK(windows(bert, WindowKind::BothSides) == std::vector<Index>{0, 128, 128, 0, 128, 128});
  CHECK(bases(bert, 0) == 160000);
  CHECK(bases(bert, 1) == 10000);
  CHECK(bases(bert.real("modern-bert.rope.freq_base_swa", 20000), 1) == 20000);
  const auto wide = with_heads("modern-bert").real("modern-bert.rope.freq_base", 160000);
  CHECK(bases(wide, 1) == 160000);

  const auto thinker = windowed("smallthinker", 4096);
  CHECK(windows(thinker) == std::vector<Index>{0, 4096, 4096, 4096, 0, 4096});
  CHECK(read_gguf(thinker.bytes()).layers_without_rotary == std::vector<Index>{0, 4});
  CHECK(read_gguf(with_heads("smallthinker").bytes()).layers_without_rotary.empty());
  CHECK_THROWS_MATCHES(read_gguf(windowed("smallthinker", 2048).bytes()), ConfigError,
                       Message("posenc::read_gguf: smallthinker" + window +
                               " is not the 4096 of this architecture"));

  auto cohere = windowed("cohere2moe", 4096).integer("cohere2moe.leading_dense_block_count", 1);
  CHECK(windows(cohere) == std::vector<Index>{0, 4096, 4096, 4096, 0, 4096});
  CHECK(read_gguf(cohere.bytes()).layers_without_rotary == std::vector<Index>{4});
  CHECK(rotary_of_layer(read_gguf(cohere.bytes()), 0)->pairing == posenc::PairingKind::Interleaved);
  CHECK_THROWS_AS(read_gguf(cohere.real("cohere2moe.rope.freq_base_swa", 20000).bytes()),
                  ConfigError);

  auto mellum = windowed("mellum", 1024).real("mellum.rope.freq_base", 500000);
  CHECK(windows(mellum) == std::vector<Index>{1024, 1024, 1024, 0, 1024, 1024});
  CHECK(bases(mellum, 0) == 500000);
  CHECK_THROWS_AS(read_gguf(mellum.real("mellum.rope.freq_base_swa", 10000).bytes()), ConfigError);

  for (const char* name : {"deepseek2-ocr", "hy_v3"}) {
    const auto read = read_gguf(with_heads(name).bytes());
    CHECK(rotary(read).pairing == posenc::PairingKind::HalfRotate);
    CHECK(rotary(read).rotary_offset == 0);
  }
}

TEST_CASE("read_gguf attention: a list of the layers that rotate, and one of those with a window",
          "[interop]") {
  const auto granite = [] {
    return with_heads("granite_swa", 4)
        .integer("granite_swa.attention.sliding_window", 128)
        .real("granite_swa.attention.scale", 0.0078125F)
        .array<std::uint8_t>("granite_swa.attention.sliding_window_pattern", GgufWriter::Bool,
                             {1, 0, 1, 1});
  };
  const auto turning = [&granite](std::vector<std::int32_t> turns) {
    return granite().array("granite_swa.attention.rope_pattern", GgufWriter::Int32, turns);
  };
  CHECK(windows(granite()) == std::vector<Index>{128, 0, 128, 128});
  CHECK(read_gguf(granite().bytes()).layers_without_rotary.empty());
  const auto read = read_gguf(turning({1, 1, 0, 1}).bytes());
  CHECK(read.layers_without_rotary == std::vector<Index>{2});
  CHECK(rotary(read).pairing == posenc::PairingKind::Interleaved);
  CHECK(attention_of_layer(read, 2).window == LayerWindow{WindowKind::Sliding, 128});
  CHECK(attention_of_layer(read, 0).sinks == true);
  CHECK(softmax_scale(read) == 0.0078125);
  CHECK_THROWS_AS(read_gguf(turning({1, 1}).bytes()), ConfigError);
  CHECK_THROWS_AS(read_gguf(turning({0, 0, 0, 0}).bytes()), ConfigError);
  CHECK_THROWS_MATCHES(
      read_gguf(windowed("granite_swa", 128).bytes()), ConfigError,
      Message(
          "posenc::read_gguf: granite_swa.attention.sliding_window_pattern must have one entry per "
          "layer"));
  CHECK_THROWS_MATCHES(
      read_gguf(with_heads("llama", 2)
                    .array<std::int32_t>("llama.attention.rope_pattern", GgufWriter::Int32, {1, 1})
                    .bytes()),
      ConfigError,
      Message(
          "posenc::read_gguf: llama.attention.rope_pattern is not known for this architecture"));
}

// Source: llama.cpp, src/models/qwen4exp.cpp (001d906)
TEST_CASE("read_gguf attention: an indexer chooses keys", "[interop]") {
  const std::vector<std::int32_t> sections{11, 11, 10, 0};
  auto qwen = with_heads("qwen4exp", 8);
  qwen.array<std::int32_t>("qwen4exp.rope.dimension_sections", GgufWriter::Int32, sections)
      .integer("qwen4exp.rope.dimension_count", 64)
      .integer("qwen4exp.attention.key_length", 256)
      .integer("qwen4exp.attention.indexer.head_count", 4)
      .integer("qwen4exp.attention.indexer.key_length", 128)
      .integer("qwen4exp.attention.indexer.top_k", 2048)
      .real("qwen4exp.rope.freq_base", 10000000);
  // Layers without a ratio see all keys.
  constexpr auto ratios = "qwen4exp.attention.compress_ratios";
  CHECK(layer(qwen, 3).kind == LayerKind::Global);
  CHECK(layer(GgufWriter(qwen).integer(ratios, 0), 3).kind == LayerKind::Global);
  CHECK(layer(GgufWriter(qwen).integer(ratios, 4), 7).kind == LayerKind::Sparse);
  CHECK(layer(GgufWriter(qwen).integer(ratios, 4), 6).kind == LayerKind::Linear);
  qwen.array<std::int32_t>(ratios, GgufWriter::Int32, {0, 0, 0, 4, 0, 0, 0, 0});
  CHECK(layer(qwen, 7).kind == LayerKind::Global);
  const auto model = read_gguf(qwen.bytes());
  CHECK(rotary(model).pairing == posenc::PairingKind::HalfRotate);
  CHECK(rotary(model).axes ==
        posenc::mrope_interleaved({11, 11, 10, 0}, posenc::MropeTail::Fourth));
  CHECK(attention_of_layer(model, 2).kind == LayerKind::Linear);
  CHECK(rotary_of_layer(model, 2) == nullptr);
  CHECK(attention_of_layer(model, 3).kind == LayerKind::Sparse);
  auto glm = with_heads("glm-dsa").integer("glm-dsa.rope.dimension_count", 64);
  CHECK(layer(glm).kind == LayerKind::Sparse);
  // The key names layers that own an indexer. The others use its choice.
  glm.array<std::uint8_t>("glm-dsa.attention.indexer.types", GgufWriter::Bool, {1, 0, 0, 1, 0, 0});
  CHECK(layer(glm, 1).kind == LayerKind::Sparse);
  CHECK(layer(with_heads("llama").integer("llama.attention.indexer.top_k", 2048)).kind ==
        LayerKind::Global);
}

TEST_CASE("read_gguf: CogVLM rotates by the base 10000, whatever the file says", "[interop]") {
  auto cogvlm = with_heads("cogvlm").real("cogvlm.rope.freq_base", 10000);
  CHECK(rotary(read_gguf(cogvlm.bytes())).pairing == posenc::PairingKind::HalfRotate);
  CHECK_NOTHROW(read_gguf(with_heads("cogvlm").bytes()));
  CHECK_THROWS_MATCHES(
      read_gguf(with_heads("cogvlm").real("cogvlm.rope.freq_base", 500000).bytes()), ConfigError,
      Message("posenc::read_gguf: cogvlm.rope.freq_base is not 10000, the base that llama.cpp uses "
              "for this architecture"));
}

}  // namespace gguf_attention_test
