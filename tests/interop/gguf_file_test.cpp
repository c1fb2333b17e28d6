// SPDX-License-Identifier: MIT
// GGUF files: the contents of valid files are found, and invalid files are rejected.
#include "interop/gguf_writer.hpp"
#include "support/catch.hpp"
#include <posenc/interop/gguf_file.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#if defined(__unix__)
#include <sys/stat.h>
#endif

namespace gguf_file_test {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Message;
using Catch::Matchers::Predicate;
using posenc::ConfigError;
using posenc::GgufFile;
using posenc::Index;
using support::GgufWriter;

namespace {

GgufFile read(const GgufWriter& writer) { return GgufFile::from_bytes(writer.bytes()); }

void check_rejected(const GgufWriter& writer, const std::string& part) {
  CHECK_THROWS_MATCHES(read(writer), ConfigError,
                       Predicate<ConfigError>(
                           [part](const ConfigError& error) {
                             return std::string(error.what()).find(part) != std::string::npos;
                           },
                           "says: " + part));
}

std::vector<std::byte> bytes_of(std::initializer_list<std::uint64_t> numbers) {
  std::vector<std::byte> bytes;
  for (const std::uint64_t number : numbers) GgufWriter::put(bytes, number);
  return bytes;
}

/// Bytes of a file that count reads and read bytes.
class CountingBytes {
 public:
  explicit CountingBytes(std::span<const std::byte> file) : source_(file) {}
  std::uint64_t size() const noexcept { return source_.size(); }
  bool read(std::uint64_t at, std::uint64_t n, void* out) {
    ++calls;
    asked += n;
    return source_.read(at, n, out);
  }

  std::uint64_t calls = 0, asked = 0;

 private:
  posenc::detail::SpanBytes source_;
};

GgufWriter everything() {
  GgufWriter writer;
  writer.architecture("llama")
      .number("u8", GgufWriter::UInt8, std::uint8_t{255})
      .number("i8", GgufWriter::Int8, std::int8_t{-1})
      .number("u16", GgufWriter::UInt16, std::uint16_t{65535})
      .number("i16", GgufWriter::Int16, std::int16_t{-2})
      .number("u32", GgufWriter::UInt32, std::uint32_t{4294967295U})
      .number("i32", GgufWriter::Int32, std::int32_t{-3})
      .number("u64", GgufWriter::UInt64, std::uint64_t{1} << 40)
      .number("i64", GgufWriter::Int64, std::int64_t{-4})
      .number("huge", GgufWriter::UInt64, std::numeric_limits<std::uint64_t>::max())
      .real("f32", 0.5F)
      .number("f64", GgufWriter::Float64, 0.25)
      .flag("yes", true)
      .flag("no", false)
      .text("long", std::string(5000, 'x'))
      .texts("words", {"a", "bc", ""})
      .array<std::int32_t>("list", GgufWriter::Int32, {16, 24, 24, 0})
      .array<std::int16_t>("shorts", GgufWriter::Int16, {1, -2, 3})
      .array<std::uint8_t>("flags", GgufWriter::Bool, {1, 0})
      .array<float>("scores", GgufWriter::Float32, {1, 2})
      .array<std::uint8_t>("longest", GgufWriter::UInt8, std::vector<std::uint8_t>(5000, 7))
      .floats("rope_freqs.weight", {1, 2, 4.5F})
      .tensor("token_embd.weight", {7, 3}, 12, std::vector<std::byte>(40))
      .halves("rope_factors_long.weight", {0x3c00, 0xc100, 0x0001, 0x7c00});
  return writer;
}

}  // namespace

TEST_CASE("GgufFile: values and rotary tensors are read", "[interop][gguf]") {
  for (const std::uint32_t version : {2U, 3U}) {
    GgufWriter writer = everything();
    writer.version = version;
    const auto file = read(writer);
    CHECK(file.text("general.architecture") == "llama");
    CHECK(file.integer("u8") == 255);
    CHECK(file.integer("i8") == -1);
    CHECK(file.integer("u16") == 65535);
    CHECK(file.integer("i16") == -2);
    CHECK(file.integer("u32") == 4294967295);
    CHECK(file.integer("i32") == -3);
    CHECK(file.integer("u64") == Index{1} << 40);
    CHECK(file.integer("i64") == -4);
    CHECK(file.real("f32") == 0.5);
    CHECK(file.real("f64") == 0.25);
    CHECK(file.real("i32") == -3.0);
    CHECK(file.flag("yes") == true);
    CHECK(file.flag("no") == false);
    CHECK(file.integers("list") == std::vector<Index>{16, 24, 24, 0});
    CHECK(file.integers("shorts") == std::vector<Index>{1, -2, 3});
    CHECK(file.integers("flags") == std::vector<Index>{1, 0});
    CHECK(file.integers("i32") == std::vector<Index>{-3});
    CHECK(file.is_number("i32"));
    CHECK_FALSE(file.is_number("list"));
    CHECK(file.keys("lo") == std::vector<std::string>{"long", "longest"});
    CHECK(file.keys().size() == 21);
    CHECK(file.rope_tensor("rope_freqs.weight") == std::vector<double>{1, 2, 4.5});
    CHECK(file.rope_tensor("rope_factors_long.weight") ==
          std::vector<double>{1, -2.5, std::ldexp(1.0, -24),
                              std::numeric_limits<double>::infinity()});
    CHECK_FALSE(file.rope_tensor("token_embd.weight"));
    CHECK(file.has_tensor("token_embd.weight"));
    CHECK(file.has_tensor("rope_freqs.weight"));
    CHECK_FALSE(file.has_tensor("token_embd"));
    CHECK(file.array_length("words") == 3);
    CHECK(file.array_length("list") == 4);
    CHECK(file.array_length("flags") == 2);
    CHECK(file.array_length("scores") == 2);
    CHECK(file.array_length("longest") == 5000);
    CHECK_FALSE(file.array_length("absent"));
    CHECK_FALSE(file.integer("absent"));
    CHECK_FALSE(file.has("absent"));
  }
}

TEST_CASE("GgufFile: a value of another type is rejected by name", "[interop][gguf]") {
  const auto file = read(everything());
  CHECK_THROWS_MATCHES(file.integer("f32"), ConfigError,
                       Message("posenc::read_gguf: f32 must be an integer"));
  CHECK_THROWS_AS(file.integer("huge"), ConfigError);
  CHECK_THROWS_AS(file.real("yes"), ConfigError);
  CHECK_THROWS_AS(file.flag("u8"), ConfigError);
  CHECK_THROWS_AS(file.text("u8"), ConfigError);
  CHECK_THROWS_AS(file.text("long"), ConfigError);
  CHECK_THROWS_AS(file.integers("words"), ConfigError);
  CHECK_THROWS_AS(file.integers("scores"), ConfigError);
  CHECK_THROWS_AS(file.integers("longest"), ConfigError);
  CHECK_THROWS_MATCHES(file.array_length("u8"), ConfigError,
                       Message("posenc::read_gguf: u8 must be an array"));
  CHECK_THROWS_AS(file.array_length("long"), ConfigError);
}

TEST_CASE("GgufFile: a file on disk reads as its bytes do", "[interop][gguf]") {
  const auto path = std::filesystem::temp_directory_path() / "posenc_gguf_file_test.gguf";
  // Strings are long enough that the reader seeks over some of them.
  GgufWriter writer = everything();
  writer.text("longer", std::string(100000, 'y')).integer("after", 5);
  const auto bytes = writer.bytes();
  {
    std::ofstream out(path, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
  }
  const auto file = GgufFile::from_path(path);
  CHECK(file.keys() == GgufFile::from_bytes(bytes).keys());
  CHECK(file.integer("after") == 5);
  CHECK(file.rope_tensor("rope_freqs.weight") == std::vector<double>{1, 2, 4.5});

  for (const std::size_t length :
       {std::size_t{0}, std::size_t{3}, bytes.size() / 2, bytes.size() - 40}) {
    std::filesystem::resize_file(path, length);
    CHECK_THROWS_AS(GgufFile::from_path(path), ConfigError);
  }
  std::filesystem::remove(path);
  CHECK_THROWS_MATCHES(GgufFile::from_path(path), ConfigError,
                       Message("posenc::read_gguf: cannot open " + path.string()));
  CHECK_THROWS_AS(GgufFile::from_path(std::filesystem::temp_directory_path()), ConfigError);
}

TEST_CASE("GgufFile: a file that ends early is rejected wherever it ends", "[interop][gguf]") {
  GgufWriter writer;
  writer.architecture("llama")
      .array<std::int32_t>("list", GgufWriter::Int32, {16, 24, 24, 0})
      .texts("words", {"a", "bc"})
      .text("t", "text")
      .floats("rope_freqs.weight", std::vector<float>(8, 1));
  const auto bytes = writer.bytes();
  CHECK_NOTHROW(GgufFile::from_bytes(bytes));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    INFO(length);
    const std::span<const std::byte> part(bytes.data(), length);
    CHECK_THROWS_AS(GgufFile::from_bytes(part), ConfigError);
  }
}

TEST_CASE("GgufFile: changed bytes never lead beyond the file", "[interop][gguf]") {
  auto bytes = everything().bytes();
  std::mt19937 random(1);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    auto changed = bytes;
    for (int k = 0; k < 1 + round % 4; ++k) {
      changed[random() % changed.size()] = static_cast<std::byte>(random());
    }
    try {
      GgufFile::from_bytes(changed);
    } catch (const ConfigError&) {
      ++refused;
    }
  }
  CHECK(refused > 1000);
}

TEST_CASE("GgufFile: headers with wrong counts are rejected", "[interop][gguf]") {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  GgufWriter writer = everything();
  writer.magic = 0x46554746;
  check_rejected(writer, "this is not a GGUF file");
  for (const std::uint32_t version : {0U, 1U, 4U, 0x03000000U}) {
    writer = everything();
    writer.version = version;
    check_rejected(writer, "versions 2 and 3, little-endian, are supported, but this is " +
                               std::to_string(version));
  }
  writer = everything();
  writer.extra_values = 1000;
  check_rejected(writer, "a key");
  writer = everything();
  writer.extra_tensors = most - 10;
  check_rejected(writer, "a tensor's name has ");
  writer = everything();
  writer.architecture("llama");
  check_rejected(writer, "the key general.architecture occurs twice");

  check_rejected(GgufWriter().raw("k", 13, bytes_of({0})), "k has the unknown type 13");
  check_rejected(GgufWriter().raw("k", most & 0xffffffff, bytes_of({0})),
                 "k has the unknown type 4294967295");
  check_rejected(GgufWriter().raw("k", GgufWriter::Bool, {std::byte{2}}),
                 "k must be 0 or 1 but is 2");
  check_rejected(GgufWriter().raw("k", GgufWriter::String, bytes_of({most})),
                 "the file ends within a string");
  check_rejected(GgufWriter().raw("k", GgufWriter::String, bytes_of({4000})),
                 "the file ends within a string: 45 bytes, and the item at byte 45 does not fit");
  check_rejected(GgufWriter().text(std::string(65536, 'k'), ""),
                 "a key has 65536 bytes; at most 65535 are allowed");
}

TEST_CASE("GgufFile: arrays with wrong counts are rejected", "[interop][gguf]") {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  const auto array = [](std::uint32_t type, std::uint64_t count) {
    std::vector<std::byte> bytes;
    GgufWriter::put(bytes, type);
    GgufWriter::put(bytes, count);
    return GgufWriter().raw("k", GgufWriter::Array, bytes);
  };
  check_rejected(array(GgufWriter::Int32, most), "the file ends within an array");
  check_rejected(array(GgufWriter::Int64, std::uint64_t{1} << 61), "the file ends within an array");
  check_rejected(array(GgufWriter::String, std::uint64_t{1} << 61),
                 "the file ends within an array");
  check_rejected(array(GgufWriter::Array, 1),
                 "k is an array of the type array, 9, which is not supported");
  check_rejected(array(13, 0), "k is an array of the unknown type 13, which is not supported");
  check_rejected(GgufWriter().array<std::uint64_t>("k", GgufWriter::UInt64, {most}),
                 "k has an integer above 2^63 - 1");
  check_rejected(GgufWriter().array<std::uint8_t>("k", GgufWriter::Bool, {3}),
                 "k must be 0 or 1 but is 3");
}

TEST_CASE("GgufFile: tensors with wrong extents are rejected", "[interop][gguf]") {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  const std::vector<std::byte> some(64);
  const auto tensor = [&](const std::vector<std::uint64_t>& extents, std::uint32_t type = 0,
                          std::uint64_t shift = 0) {
    return GgufWriter().tensor("rope_freqs.weight", extents, type, some, shift);
  };
  CHECK_NOTHROW(read(tensor({16})));
  CHECK_NOTHROW(read(tensor({16, 1, 1, 1})));
  check_rejected(tensor({17}), "the file ends within a tensor");
  check_rejected(tensor({0}),
                 "the tensor rope_freqs.weight has 0 elements; 1 to 65536 are allowed");
  check_rejected(tensor({65537}), "has 65537 elements");
  check_rejected(tensor({most}), "the tensor rope_freqs.weight has more than 2^63 elements");
  check_rejected(tensor({std::uint64_t{1} << 32, std::uint64_t{1} << 32}),
                 "has more than 2^63 elements");
  check_rejected(tensor({1, 1, 1, 1, 16}), "the tensor rope_freqs.weight has 5 axes");
  check_rejected(tensor({16}, 30), "must be F32 (0) or F16 (1) but has the type 30");
  check_rejected(tensor({16}, 0, 8),
                 "the tensor rope_freqs.weight begins at offset 8, which is not a multiple of the "
                 "alignment 32");
  check_rejected(tensor({16}, 0, 64), "the file ends within a tensor");
  check_rejected(tensor({16}, 0, most - 31), "the file ends within a tensor");
  check_rejected(tensor({16}).floats("rope_freqs.weight", {1}),
                 "the tensor rope_freqs.weight occurs twice");

  for (const std::uint32_t alignment : {0U, 3U, 33U, 0xffffffffU}) {
    check_rejected(
        tensor({16}).integer("general.alignment", alignment),
        "general.alignment must be a power of two up to 2^31 but is " + std::to_string(alignment));
  }
  check_rejected(
      tensor({16}).number("general.alignment", GgufWriter::UInt64, std::uint64_t{1} << 32),
      "general.alignment must be a power of two up to 2^31 but is 4294967296");
  check_rejected(tensor({16}).integer("general.alignment", 0x80000000U),
                 "the file ends within the padding");
  check_rejected(tensor({16}).text("general.alignment", "32"),
                 "general.alignment must be an integer");
  CHECK(read(GgufWriter().alignment(64).floats("rope_freqs.weight", {3}))
            .rope_tensor("rope_freqs.weight") == std::vector<double>{3});
}

// No byte is read twice, for files full of keys, strings, arrays or tensors.
TEST_CASE("GgufFile: reading is linear in the size of the file", "[interop][gguf]") {
  const auto work = [](const GgufWriter& writer) {
    const auto bytes = writer.bytes();
    CountingBytes source(bytes);
    try {
      GgufFile::from_source(source);
    } catch (const ConfigError&) {
    }
    CHECK(source.asked <= bytes.size());
    CHECK(source.calls <= bytes.size());
    return source.calls;
  };
  const auto fill = [](int what, int n) {
    GgufWriter writer;
    for (int i = 0; i < n; ++i) {
      std::string name = "k";
      name += std::to_string(100000 + i);
      if (what == 0) writer.flag(name, true);
      if (what == 1) writer.text(name, std::string(1000, 'x'));
      if (what == 2) writer.array<std::uint8_t>(name, GgufWriter::UInt8, {1, 2, 3});
      if (what == 3) writer.tensor(name, {1}, 0, std::vector<std::byte>(4));
    }
    if (what == 4) writer.texts("k", std::vector<std::string>(static_cast<std::size_t>(n)));
    if (what == 5) {
      writer.array("k", GgufWriter::Int32, std::vector<std::int32_t>(static_cast<std::size_t>(n)));
    }
    return writer;
  };
  for (int what = 0; what < 6; ++what) {
    CAPTURE(what);
    const auto once = work(fill(what, 3000));
    CHECK(work(fill(what, 6000)) <= 2 * once);
  }
}

#if defined(__unix__)
TEST_CASE("GgufFile: a pipe is rejected without waiting for it", "[interop][gguf]") {
  const auto path = std::filesystem::temp_directory_path() / "posenc_gguf_file_test.pipe";
  std::filesystem::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK_THROWS_MATCHES(GgufFile::from_path(path), ConfigError,
                       Message("posenc::read_gguf: cannot open " + path.string()));
  std::filesystem::remove(path);
}
#endif

}  // namespace gguf_file_test
