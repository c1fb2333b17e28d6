// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

// libc++ built without files, as for WebAssembly, fails to compile <filesystem>. Its macro has two
// names with opposite meanings.
#if defined(_LIBCPP_HAS_NO_FILESYSTEM_LIBRARY) || \
    (defined(_LIBCPP_HAS_FILESYSTEM) && !_LIBCPP_HAS_FILESYSTEM)
#define POSENC_HAS_FILESYSTEM 0
#else
#define POSENC_HAS_FILESYSTEM 1
#include <filesystem>
#include <fstream>
#endif

POSENC_BEGIN
namespace detail {

/// Bytes of a GGUF file in memory.
class SpanBytes {
 public:
  explicit SpanBytes(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t size() const noexcept { return bytes_.size(); }

  /// Copies n bytes that begin at `at`. The caller must have checked that they exist.
  bool read(std::uint64_t at, std::uint64_t n, void* out) {
    if (n != 0) std::memcpy(out, bytes_.data() + at, static_cast<std::size_t>(n));
    return true;
  }

 private:
  std::span<const std::byte> bytes_;
};

#if POSENC_HAS_FILESYSTEM
/// Bytes of a GGUF file on disk. Only requested ranges are read, because models are larger than
/// memory.
class FileBytes {
 public:
  explicit FileBytes(const std::filesystem::path& path) {
    std::error_code error;
    // Checked before opening, because opening a pipe blocks until another process writes to it.
    if (std::filesystem::is_regular_file(path, error)) file_.open(path, std::ios::binary);
    if (file_.is_open()) size_ = std::filesystem::file_size(path, error);
    if (!file_.is_open() || error) fail<ConfigError>("read_gguf", "cannot open ", path.string());
  }

  std::uint64_t size() const noexcept { return size_; }

  bool read(std::uint64_t at, std::uint64_t n, void* out) {
    // Seeking drops the stream's buffer, which would make short steps through a vocabulary slow.
    constexpr std::uint64_t short_step = 4096;
    if (at >= position_ && at - position_ <= short_step) {
      file_.ignore(static_cast<std::streamsize>(at - position_));
    } else {
      file_.seekg(static_cast<std::streamoff>(at));
    }
    file_.read(static_cast<char*>(out), static_cast<std::streamsize>(n));
    position_ = at + n;
    return file_.good();
  }

 private:
  std::ifstream file_;
  std::uint64_t size_ = 0;
  std::uint64_t position_ = 0;
};
#endif

/// Cursor over little-endian values. Reading past the end throws ConfigError.
template <class Bytes>
class GgufCursor {
 public:
  explicit GgufCursor(Bytes& bytes) : bytes_(bytes) {}

  std::uint64_t at() const noexcept { return at_; }
  std::uint64_t left() const noexcept { return bytes_.size() - at_; }

  void move_to(std::uint64_t at, const char* what) {
    if (at > bytes_.size()) truncated(what);
    at_ = at;
  }

  void skip(std::uint64_t n, const char* what) {
    if (n > left()) truncated(what);
    at_ += n;
  }

  /// Throws unless `count` elements of `size` bytes follow. Call it before allocating memory for
  /// them.
  void expect(std::uint64_t count, std::uint64_t size, const char* what) const {
    if (count > left() / size) truncated(what);
  }

  template <class T>
  T number(const char* what) {
    static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>);
    std::array<unsigned char, sizeof(T)> raw;
    copy(sizeof(T), raw.data(), what);
    using Bits = std::conditional_t<
        sizeof(T) == 1, std::uint8_t,
        std::conditional_t<sizeof(T) == 2, std::uint16_t,
                           std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>>;
    std::uint64_t bits = 0;
    for (std::size_t i = sizeof(T); i-- > 0;) bits = bits << 8 | raw[i];
    return std::bit_cast<T>(static_cast<Bits>(bits));
  }

  std::string text(std::uint64_t length, const char* what) {
    expect(length, 1, what);
    std::string result(static_cast<std::size_t>(length), '\0');
    copy(length, result.data(), what);
    return result;
  }

 private:
  void copy(std::uint64_t n, void* out, const char* what) {
    if (n > left()) truncated(what);
    if (!bytes_.read(at_, n, out)) fail<ConfigError>("read_gguf", "cannot read ", what);
    at_ += n;
  }

  [[noreturn]] void truncated(const char* what) const {
    fail<ConfigError>("read_gguf", "the file ends within ", what, ": ", bytes_.size(),
                      " bytes, and the item at byte ", at_, " does not fit");
  }

  Bytes& bytes_;
  std::uint64_t at_ = 0;
};

}  // namespace detail
POSENC_END
