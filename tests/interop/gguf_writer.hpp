// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace support {

/// Writer of small GGUF files for tests, valid unless requested otherwise.
class GgufWriter {
 public:
  enum Type : std::uint32_t {
    UInt8,
    Int8,
    UInt16,
    Int16,
    UInt32,
    Int32,
    Float32,
    Bool,
    String,
    Array,
    UInt64,
    Int64,
    Float64
  };

  /// Appends the bytes of a number, little-endian.
  template <class T>
  static void put(std::vector<std::byte>& out, T number) {
    auto raw = std::bit_cast<std::array<std::byte, sizeof(T)>>(number);
    if constexpr (std::endian::native == std::endian::big) std::reverse(raw.begin(), raw.end());
    for (const std::byte byte : raw) out.push_back(byte);
  }

  static void put_text(std::vector<std::byte>& out, std::string_view text) {
    put(out, std::uint64_t{text.size()});
    const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
    out.insert(out.end(), bytes, bytes + text.size());
  }

  GgufWriter& architecture(std::string_view name) { return text("general.architecture", name); }

  GgufWriter& integer(std::string_view key, std::uint32_t value) {
    return number(key, UInt32, value);
  }
  GgufWriter& real(std::string_view key, float value) { return number(key, Float32, value); }
  GgufWriter& flag(std::string_view key, bool value) {
    return number(key, Bool, static_cast<std::uint8_t>(value));
  }

  template <class T>
  GgufWriter& number(std::string_view key, Type type, T value) {
    begin(key, type);
    put(values_, value);
    return *this;
  }

  GgufWriter& text(std::string_view key, std::string_view value) {
    begin(key, String);
    put_text(values_, value);
    return *this;
  }

  template <class T>
  GgufWriter& array(std::string_view key, Type type, const std::vector<T>& elements) {
    begin(key, Array);
    put(values_, static_cast<std::uint32_t>(type));
    put(values_, std::uint64_t{elements.size()});
    for (const T element : elements) put(values_, element);
    return *this;
  }

  GgufWriter& texts(std::string_view key, const std::vector<std::string>& elements) {
    begin(key, Array);
    put(values_, static_cast<std::uint32_t>(String));
    put(values_, std::uint64_t{elements.size()});
    for (const std::string& element : elements) put_text(values_, element);
    return *this;
  }

  /// Writes a key and a type, with bytes that need not match the type.
  GgufWriter& raw(std::string_view key, std::uint32_t type, const std::vector<std::byte>& bytes) {
    begin(key, type);
    values_.insert(values_.end(), bytes.begin(), bytes.end());
    return *this;
  }

  GgufWriter& floats(std::string_view name, const std::vector<float>& elements) {
    std::vector<std::byte> bytes;
    for (const float element : elements) put(bytes, element);
    return tensor(name, {elements.size()}, 0, bytes);
  }

  GgufWriter& halves(std::string_view name, const std::vector<std::uint16_t>& elements) {
    std::vector<std::byte> bytes;
    for (const std::uint16_t element : elements) put(bytes, element);
    return tensor(name, {elements.size()}, 1, bytes);
  }

  /// Writes a tensor. `shift` is added to the correct offset.
  GgufWriter& tensor(std::string_view name, const std::vector<std::uint64_t>& extents,
                     std::uint32_t type, const std::vector<std::byte>& bytes,
                     std::uint64_t shift = 0) {
    put_text(tensors_, name);
    put(tensors_, static_cast<std::uint32_t>(extents.size()));
    for (const std::uint64_t extent : extents) put(tensors_, extent);
    put(tensors_, type);
    put(tensors_, std::uint64_t{data_.size()} + shift);
    ++tensor_count_;
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    pad(data_);
    return *this;
  }

  GgufWriter& alignment(std::uint32_t value) {
    alignment_ = value;
    return integer("general.alignment", value);
  }

  std::uint32_t magic = 0x46554747;
  std::uint32_t version = 3;
  std::uint64_t extra_values = 0;   ///< number of values claimed but not present
  std::uint64_t extra_tensors = 0;  ///< number of tensors claimed but not present

  std::vector<std::byte> bytes() const {
    std::vector<std::byte> file;
    put(file, magic);
    put(file, version);
    put(file, tensor_count_ + extra_tensors);
    put(file, value_count_ + extra_values);
    file.insert(file.end(), values_.begin(), values_.end());
    file.insert(file.end(), tensors_.begin(), tensors_.end());
    if (tensor_count_ != 0) pad(file);
    file.insert(file.end(), data_.begin(), data_.end());
    return file;
  }

 private:
  void begin(std::string_view key, std::uint32_t type) {
    put_text(values_, key);
    put(values_, type);
    ++value_count_;
  }

  void pad(std::vector<std::byte>& bytes) const {
    while (bytes.size() % alignment_ != 0) bytes.push_back(std::byte{0});
  }

  std::vector<std::byte> values_, tensors_, data_;
  std::uint64_t value_count_ = 0, tensor_count_ = 0;
  std::uint32_t alignment_ = 32;
};

}  // namespace support
