// SPDX-License-Identifier: MIT
// Sizes of a model in GGUF metadata.
#include "interop/gguf_writer.hpp"
#include "support/catch.hpp"
#include <posenc/interop/gguf.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gguf_sizes_test {

using Catch::Matchers::Message;
using posenc::ConfigError;
using posenc::Index;
using support::GgufWriter;

namespace {

GgufWriter llama() {
  GgufWriter writer;
  writer.architecture("llama")
      .integer("llama.embedding_length", 4096)
      .integer("llama.attention.head_count", 32)
      .integer("llama.block_count", 4);
  return writer;
}

posenc::ModelSettings read(const GgufWriter& writer) { return posenc::read_gguf(writer.bytes()); }

GgufWriter& add_tensor(GgufWriter& writer, const char* name) {
  return writer.tensor(name, {8, 4}, 0, std::vector<std::byte>(128));
}

void check_rejected(const GgufWriter& writer, const std::string& message) {
  CHECK_THROWS_MATCHES(read(writer), ConfigError, Message("posenc::read_gguf: " + message));
}

}  // namespace

TEST_CASE("read_gguf sizes: a GGUF file gives sizes of the model", "[interop][gguf]") {
  auto writer = llama();
  writer.integer("llama.feed_forward_length", 14336)
      .integer("llama.vocab_size", 128256)
      .real("llama.attention.layer_norm_rms_epsilon", 1e-5F);
  const auto model = read(writer);
  CHECK(model.hidden_size == 4096);
  CHECK(model.vocabulary_size == 128256);
  CHECK(model.layer_count == 4);
  CHECK(model.intermediate_sizes == std::vector<Index>{14336});
  CHECK(intermediate_size_of_layer(model, 3) == 14336);
  CHECK(model.norm_epsilon == static_cast<double>(1e-5F));
  CHECK_FALSE(model.tied_embeddings);  // the file lists no tensors
}

TEST_CASE("read_gguf sizes: sizes that a GGUF file lacks are absent", "[interop][gguf]") {
  GgufWriter writer;
  writer.architecture("llama").integer("llama.attention.key_length", 64);
  const auto model = read(writer);
  CHECK_FALSE(model.hidden_size);
  CHECK_FALSE(model.vocabulary_size);
  CHECK(model.intermediate_sizes.empty());
  CHECK_FALSE(model.norm_epsilon);
}

TEST_CASE("read_gguf sizes: the list of tokens gives the vocabulary of a GGUF file without its key",
          "[interop][gguf]") {
  auto writer = llama();
  writer.texts("tokenizer.ggml.tokens", {"a", "b", "c"});
  CHECK(read(writer).vocabulary_size == 3);
  writer.integer("llama.vocab_size", 4);
  CHECK(read(writer).vocabulary_size == 4);
  auto text = llama();
  text.text("tokenizer.ggml.tokens", "abc");
  check_rejected(text, "tokenizer.ggml.tokens must be an array");
}

TEST_CASE("read_gguf sizes: feed-forward widths of a GGUF file may differ between layers",
          "[interop][gguf]") {
  auto writer = llama();
  writer.array<std::int32_t>("llama.feed_forward_length", GgufWriter::Int32, {512, 0, 1024, 2048});
  const auto model = read(writer);
  CHECK(model.intermediate_sizes == std::vector<Index>{512, 0, 1024, 2048});
  CHECK(intermediate_size_of_layer(model, 1) == 0);
  auto shorter = llama();
  shorter.array<std::int32_t>("llama.feed_forward_length", GgufWriter::Int32, {512, 512});
  check_rejected(shorter, "llama.feed_forward_length must have one entry per layer");
}

TEST_CASE("read_gguf sizes: embeddings of a GGUF file are tied without an output tensor",
          "[interop][gguf]") {
  auto tied = llama();
  add_tensor(tied, "token_embd.weight");
  CHECK(read(tied).tied_embeddings == true);
  auto part = tied;
  part.number("split.count", GgufWriter::UInt16, std::uint16_t{2});
  CHECK_FALSE(read(part).tied_embeddings);
  auto own = tied;
  add_tensor(own, "output.weight");
  CHECK(read(own).tied_embeddings == false);
  auto other = llama();
  add_tensor(other, "blk.0.attn_q.weight");
  CHECK_FALSE(read(other).tied_embeddings);
}

TEST_CASE("read_gguf sizes: epsilons of a GGUF file that differ are absent", "[interop][gguf]") {
  auto writer = llama();
  writer.real("llama.attention.layer_norm_epsilon", 1e-5F);
  CHECK(read(writer).norm_epsilon == static_cast<double>(1e-5F));
  writer.real("llama.attention.layer_norm_rms_epsilon", 1e-6F);
  CHECK_FALSE(read(writer).norm_epsilon);
}

TEST_CASE("read_gguf sizes: invalid sizes of a GGUF file are errors that name the key",
          "[interop][gguf]") {
  const auto with = [](const char* key, std::int64_t value) {
    GgufWriter writer;
    writer.architecture("llama").integer("llama.attention.key_length", 64);
    return writer.number(key, GgufWriter::Int64, value);
  };
  for (const std::string key : {"llama.embedding_length", "llama.vocab_size"}) {
    check_rejected(with(key.c_str(), 0), key + " must be from 1 to 2147483647");
    check_rejected(with(key.c_str(), std::int64_t{1} << 31), key + " must be from 1 to 2147483647");
  }
  check_rejected(with("llama.feed_forward_length", -1),
                 "llama.feed_forward_length must be from 0 to 2147483647");
  auto zero = llama();
  zero.real("llama.attention.layer_norm_epsilon", 0);
  check_rejected(zero, "llama.attention.layer_norm_epsilon must be positive");
  auto text = llama();
  text.text("llama.feed_forward_length", "512");
  CHECK_THROWS_AS(read(text), ConfigError);
  auto flag = llama();
  flag.flag("llama.vocab_size", true);
  check_rejected(flag, "llama.vocab_size must be an integer");
}

}  // namespace gguf_sizes_test
