// SPDX-License-Identifier: MIT
// Files of an unknown architecture: what the file does not state is asked for, and nothing is assumed.
#include "interop/gguf_writer.hpp"
#include "support/catch.hpp"
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/gguf.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace gguf_unknown_architectures_test {

using Catch::Matchers::Message;
using posenc::ConfigError;
using posenc::GgufOptions;
using posenc::MropeOrder;
using posenc::PairingKind;
using posenc::read_gguf;
using support::GgufWriter;

namespace {

constexpr GgufOptions stated{
    .pairing = PairingKind::HalfRotate, .rotary_share = 1, .softmax_scale = 0.125};

GgufWriter model(const std::string& name = "other") {
  GgufWriter writer;
  return writer.architecture(name)
      .integer(name + ".block_count", 2)
      .integer(name + ".context_length", 4096)
      .integer(name + ".embedding_length", 4096)
      .integer(name + ".attention.head_count", 32);
}

void check_rejected(const GgufWriter& writer, const GgufOptions& options,
                    const std::string& message) {
  CHECK_THROWS_MATCHES(read_gguf(writer.bytes(), options), ConfigError,
                       Message("posenc::read_gguf: " + message));
}

std::string unknown(const std::string& advice) {
  return "the architecture 'other' is unknown; to read it as a plain rotary model, " + advice;
}

}  // namespace

TEST_CASE("GgufOptions: an unknown architecture needs everything that its file does not state",
          "[interop][gguf]") {
  check_rejected(model(), {}, unknown("set in the options: pairing, rotary_share, softmax_scale"));
  check_rejected(model(), {.pairing = PairingKind::HalfRotate},
                 unknown("set in the options: rotary_share, softmax_scale"));
  const auto found = read_gguf(model().bytes(), stated);
  CHECK(rotary_dim(rotary(found)) == 128);
  CHECK(rotary(found).pairing == PairingKind::HalfRotate);
  CHECK(found.softmax_scale == 0.125);
  CHECK(attention_options<float>(found, 0).scale == 0.125);
  GgufOptions quarter = stated;
  quarter.rotary_share = 0.25;
  CHECK(rotary_dim(rotary(read_gguf(model().bytes(), quarter))) == 32);
  quarter.rotary_share = 1.5;
  check_rejected(model(), quarter, "rotary_share must lie in (0, 1] but is 1.5");

  // The file may state share and scale.
  const auto with_both =
      model().integer("other.rope.dimension_count", 64).real("other.attention.scale", 0.25F);
  const auto from_file = read_gguf(with_both.bytes(), {.pairing = PairingKind::Interleaved});
  CHECK(rotary_dim(rotary(from_file)) == 64);
  CHECK(from_file.softmax_scale == 0.25);
  check_rejected(with_both, {.pairing = PairingKind::Interleaved, .rotary_share = 1},
                 "rotary_share of the options is 1 but the file's share is 0.5");
  check_rejected(with_both, {.pairing = PairingKind::Interleaved, .softmax_scale = 0.5},
                 "softmax_scale of the options is 0.5 but the file's scale is 0.25");

  // A window is not known to apply to all layers.
  const auto windowed =
      read_gguf(model().integer("other.attention.sliding_window", 64).bytes(), stated);
  CHECK(attention_of_layer(windowed, 0).window == std::nullopt);
}

TEST_CASE("GgufOptions.ignored_keys: keys of an unknown architecture must be understood or named",
          "[interop][gguf]") {
  auto writer = model().integer("other.engram.size", 3).integer("other.attention.new_rank", 8);
  check_rejected(writer, stated,
                 unknown("name in ignored_keys, if they change neither positions nor scores: "
                         "'attention.new_rank', 'engram.size'"));
  check_rejected(writer, {.pairing = PairingKind::HalfRotate},
                 unknown("set in the options: rotary_share, softmax_scale; name in ignored_keys, "
                         "if they change neither positions nor scores: 'attention.new_rank', "
                         "'engram.size'"));
  GgufOptions named = stated;
  named.ignored_keys = "engram.size attention.new_rank";
  CHECK_NOTHROW(read_gguf(writer.bytes(), named));
  named.ignored_keys = "engram.size attention.new_rank missing";
  check_rejected(writer, named, "ignored_keys names 'missing', which the file does not have");
  named.ignored_keys = "engram.size attention.new_rank attention.head_count";
  check_rejected(writer, named, "ignored_keys names 'attention.head_count', which has an effect");

  auto many = model();
  for (int i = 0; i < 20; ++i) many.integer("other.key_" + std::to_string(10 + i), 1);
  try {
    read_gguf(many.bytes(), stated);
    FAIL("no error");
  } catch (const ConfigError& error) {
    CHECK(std::string(error.what()).ends_with("'key_25' and 4 more"));
  }
  // Keys of known architectures may be named as well.
  auto known = model("llama").real("llama.rope.new", 1);
  CHECK_THROWS_AS(read_gguf(known.bytes()), ConfigError);
  CHECK_NOTHROW(read_gguf(known.bytes(), {.ignored_keys = "rope.new"}));
}

TEST_CASE("GgufOptions.mrope_order: the order of the axes of sections is asked for",
          "[interop][gguf][mrope]") {
  const auto file = model().array<std::int32_t>("other.rope.dimension_sections", GgufWriter::Int32,
                                                {24, 20, 20, 0});
  check_rejected(file, stated, unknown("set in the options: mrope_order"));
  GgufOptions ordered = stated;
  ordered.mrope_order = MropeOrder::Chunked;
  CHECK(rotary(read_gguf(file.bytes(), ordered)).axes == posenc::mrope_chunked({24, 20, 20}));
  ordered.mrope_order = MropeOrder::Interleaved;
  CHECK(rotary(read_gguf(file.bytes(), ordered)).axes ==
        posenc::mrope_interleaved({24, 20, 20}, posenc::MropeTail::Fourth));
}

TEST_CASE("GgufOptions: options of unknown architectures are rejected for known ones",
          "[interop][gguf]") {
  constexpr auto tail = " must not be set for the known architecture 'llama'";
  check_rejected(model("llama"), {.mrope_order = MropeOrder::Chunked},
                 std::string("mrope_order") + tail);
  check_rejected(model("llama"), {.rotary_share = 0.5}, std::string("rotary_share") + tail);
  check_rejected(model("llama"), {.softmax_scale = 0.5}, std::string("softmax_scale") + tail);
}

}  // namespace gguf_unknown_architectures_test
