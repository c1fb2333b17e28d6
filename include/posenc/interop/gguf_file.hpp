// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/gguf_bytes.hpp>
#include <posenc/simd/half.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Tensors of divisors of the frequencies: one list for all lengths, or two lists of LongRoPE.
inline constexpr std::string_view gguf_freqs_tensor = "rope_freqs.weight",
                                  gguf_long_tensor = "rope_factors_long.weight",
                                  gguf_short_tensor = "rope_factors_short.weight";
inline constexpr std::array gguf_rope_tensors = {gguf_freqs_tensor, gguf_long_tensor,
                                                 gguf_short_tensor};

}  // namespace detail

/// Metadata of a GGUF file (versions 2 and 3, little-endian) and its small rotary tensors.
///
/// Files may be of unknown origin: every length, count, type and offset is checked against the file
/// before use, and no memory is allocated beyond what the file's bytes can fill. Long values
/// (strings above 4096 bytes, arrays above 4096 elements, arrays of strings) are skipped: their
/// keys are kept, their values are not.
///   Throws: ConfigError that names the offset or the key
///   Cost:   linear in the size of the header, plus sorting its keys and names of tensors; the
///           memory kept is at most eight times the header
///   Source: docs/gguf.md of ggml
class GgufFile {
 public:
  /// Reads a file in memory. The bytes are not needed after the call.
  ///   Throws: ConfigError if they are no valid GGUF file
  static GgufFile from_bytes(std::span<const std::byte> bytes) {
    detail::SpanBytes source(bytes);
    return GgufFile(source);
  }

#if POSENC_HAS_FILESYSTEM
  /// Reads only the header and the rotary tensors of a file, which may be of any size.
  ///   Throws: ConfigError, also if the file cannot be opened
  static GgufFile from_path(const std::filesystem::path& path) {
    detail::FileBytes source(path);
    return GgufFile(source);
  }
#endif

  /// Reads from any type with size(), and read(at, n, out) like detail::SpanBytes.
  ///   Throws: ConfigError, and exceptions of the source
  template <class Bytes>
  static GgufFile from_source(Bytes& source) {
    return GgufFile(source);
  }

  /// True if the file has the key, even if its value was skipped.
  bool has(std::string_view key) const { return values_.contains(key); }

  /// Returns all keys that begin with `prefix`, sorted.
  std::vector<std::string> keys(std::string_view prefix = {}) const {
    std::vector<std::string> found;
    for (auto at = values_.lower_bound(prefix);
         at != values_.end() && at->first.starts_with(prefix); ++at) {
      found.push_back(at->first);
    }
    return found;
  }

  /// Returns the integer of a key, or nullopt if the file does not have the key.
  ///   Throws: ConfigError if the value has another type, or exceeds 2^63 - 1
  std::optional<Index> integer(std::string_view key) const { return get<Index>(key, "an integer"); }

  /// Returns the number of a key, which may be an integer, or nullopt if the file does not have the
  /// key.
  ///   Throws: ConfigError if the value has another type, or is infinite or NaN
  std::optional<double> real(std::string_view key) const {
    const Value* value = find(key);
    if (value != nullptr && std::holds_alternative<Index>(*value)) {
      return static_cast<double>(std::get<Index>(*value));
    }
    const auto number = get<double>(key, "a number");
    if (number && !std::isfinite(*number)) {
      detail::fail<ConfigError>(function, key, " must be finite but is ", *number);
    }
    return number;
  }

  /// Returns the truth value of a key, or nullopt if the file does not have the key.
  ///   Throws: ConfigError if the value has another type
  std::optional<bool> flag(std::string_view key) const { return get<bool>(key, "true or false"); }

  /// Returns the string of a key, or nullopt if the file does not have the key.
  ///   Throws: ConfigError if the value has another type, or more than 4096 bytes
  std::optional<std::string> text(std::string_view key) const {
    return get<std::string>(key, "a string of at most 4096 bytes");
  }

  /// True if the file has the key, and its value is an integer or a floating-point number.
  bool is_number(std::string_view key) const {
    const Value* value = find(key);
    return value != nullptr &&
           (std::holds_alternative<Index>(*value) || std::holds_alternative<double>(*value));
  }

  /// Returns an array of integers or of flags (as 0 and 1), or a single integer as an array, or
  /// nullopt if the file does not have the key.
  ///   Throws: ConfigError if the value has another type, or more than 4096 elements
  std::optional<std::vector<Index>> integers(std::string_view key) const {
    const Value* value = find(key);
    if (value != nullptr && std::holds_alternative<Index>(*value)) {
      return std::vector<Index>{std::get<Index>(*value)};
    }
    return get<std::vector<Index>>(key, "an array of at most 4096 integers");
  }

  /// Returns the number of elements of an array, even if its values were skipped.
  std::optional<Index> array_length(std::string_view key) const {
    const Value* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (const auto* skipped = std::get_if<SkippedArray>(value)) return skipped->length;
    if (const auto* list = std::get_if<std::vector<Index>>(value)) {
      return static_cast<Index>(list->size());
    }
    detail::fail<ConfigError>(function, key, " must be an array");
  }

  /// True if the file lists a tensor of this name. A part of a model that is split into several
  /// files lists its own tensors only.
  bool has_tensor(std::string_view name) const { return tensor_names_.contains(name); }

  /// Returns the values of rope_freqs.weight, rope_factors_long.weight or
  /// rope_factors_short.weight, F32 or F16; nullopt if the file has no such tensor.
  std::optional<std::vector<double>> rope_tensor(std::string_view name) const {
    const auto at = tensors_.find(name);
    return at == tensors_.end() ? std::nullopt : std::optional(at->second);
  }

 private:
  static constexpr const char* function = "read_gguf";
  static constexpr std::uint64_t longest_kept = 4096;

  struct SkippedArray {
    Index length;
  };

  /// monostate: a value that was skipped.
  using Value = std::variant<std::monostate, bool, Index, double, std::string, std::vector<Index>,
                             SkippedArray>;

  enum class Type : std::uint32_t {
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

  struct Tensor {
    std::string name;
    std::uint32_t type;
    std::uint64_t elements;
    std::uint64_t offset;
  };

  template <class Bytes>
  explicit GgufFile(Bytes& bytes) {
    detail::GgufCursor cursor(bytes);
    const auto magic = cursor.template number<std::uint32_t>("the magic number");
    if (magic != 0x46554747) detail::fail<ConfigError>(function, "this is not a GGUF file");
    const auto version = cursor.template number<std::uint32_t>("the version");
    if (version != 2 && version != 3) {
      detail::fail<ConfigError>(
          function, "versions 2 and 3, little-endian, are supported, but this is ", version);
    }
    const auto tensors = cursor.template number<std::uint64_t>("the number of tensors");
    const auto values = cursor.template number<std::uint64_t>("the number of values");
    for (std::uint64_t i = 0; i < values; ++i) read_value(cursor);
    std::vector<Tensor> wanted;
    for (std::uint64_t i = 0; i < tensors; ++i) read_tensor_info(cursor, wanted);
    read_tensors(cursor, wanted);
  }

  template <class Cursor>
  void read_value(Cursor& cursor) {
    const auto length = cursor.template number<std::uint64_t>("the length of a key");
    if (length > 65535) {
      detail::fail<ConfigError>(function, "a key has ", length,
                                " bytes; at most 65535 are allowed");
    }
    std::string key = cursor.text(length, "a key");
    const auto type = cursor.template number<std::uint32_t>("the type of a value");
    Value value = type == static_cast<std::uint32_t>(Type::Array) ? read_array(cursor, key)
                                                                  : read_scalar(cursor, key, type);
    if (!values_.emplace(key, std::move(value)).second) {
      detail::fail<ConfigError>(function, "the key ", key, " occurs twice");
    }
  }

  template <class Cursor>
  static Value read_scalar(Cursor& cursor, std::string_view key, std::uint32_t type) {
    constexpr auto what = "a value";
    switch (static_cast<Type>(type)) {
      case Type::UInt8:
        return Index{cursor.template number<std::uint8_t>(what)};
      case Type::Int8:
        return Index{cursor.template number<std::int8_t>(what)};
      case Type::UInt16:
        return Index{cursor.template number<std::uint16_t>(what)};
      case Type::Int16:
        return Index{cursor.template number<std::int16_t>(what)};
      case Type::UInt32:
        return Index{cursor.template number<std::uint32_t>(what)};
      case Type::Int32:
        return Index{cursor.template number<std::int32_t>(what)};
      case Type::Int64:
        return Index{cursor.template number<std::int64_t>(what)};
      case Type::Float32:
        return static_cast<double>(cursor.template number<float>(what));
      case Type::Float64:
        return cursor.template number<double>(what);
      case Type::UInt64: {
        const auto number = cursor.template number<std::uint64_t>(what);
        if (number > std::uint64_t{(std::numeric_limits<std::int64_t>::max)()}) return {};
        return static_cast<Index>(number);
      }
      case Type::Bool: {
        const auto flag = cursor.template number<std::uint8_t>(what);
        if (flag > 1) detail::fail<ConfigError>(function, key, " must be 0 or 1 but is ", flag);
        return flag == 1;
      }
      case Type::String: {
        const auto length = cursor.template number<std::uint64_t>("the length of a string");
        if (length <= longest_kept) return cursor.text(length, "a string");
        cursor.skip(length, "a string");
        return {};
      }
      case Type::Array:
        break;
    }
    detail::fail<ConfigError>(function, key, " has the unknown type ", type);
  }

  template <class Cursor>
  static Value read_array(Cursor& cursor, std::string_view key) {
    const auto type = cursor.template number<std::uint32_t>("the type of an array's elements");
    const auto count = cursor.template number<std::uint64_t>("the length of an array");
    const std::uint64_t size = element_size(type);
    if (size == 0) {
      detail::fail<ConfigError>(
          function, key, " is an array of the ",
          type == static_cast<std::uint32_t>(Type::Array) ? "type array, " : "unknown type ", type,
          ", which is not supported");
    }
    cursor.expect(count, size, "an array");
    const bool is_text = type == static_cast<std::uint32_t>(Type::String);
    const bool is_real = type == static_cast<std::uint32_t>(Type::Float32) ||
                         type == static_cast<std::uint32_t>(Type::Float64);
    if (is_text) {
      for (std::uint64_t i = 0; i < count; ++i) {
        const auto length = cursor.template number<std::uint64_t>("the length of a string");
        cursor.skip(length, "a string");
      }
      return SkippedArray{static_cast<Index>(count)};
    }
    if (is_real || count > longest_kept) {
      cursor.skip(count * size, "an array");
      return SkippedArray{static_cast<Index>(count)};
    }
    std::vector<Index> integers;
    integers.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
      const Value element = read_scalar(cursor, key, type);
      if (const auto* flag = std::get_if<bool>(&element)) {
        integers.push_back(*flag ? 1 : 0);
      } else if (const auto* integer = std::get_if<Index>(&element)) {
        integers.push_back(*integer);
      } else {
        detail::fail<ConfigError>(function, key, " has an integer above 2^63 - 1");
      }
    }
    return integers;
  }

  /// Returns the minimum size of an element in bytes; 0 for types that arrays cannot contain.
  static std::uint64_t element_size(std::uint32_t type) {
    constexpr std::uint64_t sizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 8, 0, 8, 8, 8};  // by Type
    return type < std::size(sizes) ? sizes[type] : 0;
  }

  template <class Cursor>
  void read_tensor_info(Cursor& cursor, std::vector<Tensor>& wanted) {
    constexpr auto what = "the list of tensors";
    const auto length = cursor.template number<std::uint64_t>(what);
    if (length > 65535) {
      detail::fail<ConfigError>(function, "a tensor's name has ", length, " bytes");
    }
    std::string name = cursor.text(length, what);
    const auto axes = cursor.template number<std::uint32_t>(what);
    if (axes > 4) detail::fail<ConfigError>(function, "the tensor ", name, " has ", axes, " axes");
    std::uint64_t elements = 1;
    for (std::uint32_t i = 0; i < axes; ++i) {
      const auto extent = cursor.template number<std::uint64_t>(what);
      constexpr auto max_elements = std::uint64_t{(std::numeric_limits<std::int64_t>::max)()};
      if (extent != 0 && elements > max_elements / extent) {
        detail::fail<ConfigError>(function, "the tensor ", name, " has more than 2^63 elements");
      }
      elements *= extent;
    }
    const auto type = cursor.template number<std::uint32_t>(what);
    const auto offset = cursor.template number<std::uint64_t>(what);
    tensor_names_.insert(name);
    const auto& rotary = detail::gguf_rope_tensors;
    if (std::find(rotary.begin(), rotary.end(), name) == rotary.end()) return;
    for (const Tensor& other : wanted) {
      if (other.name == name) {
        detail::fail<ConfigError>(function, "the tensor ", name, " occurs twice");
      }
    }
    wanted.push_back({std::move(name), type, elements, offset});
  }

  template <class Cursor>
  void read_tensors(Cursor& cursor, const std::vector<Tensor>& wanted) {
    if (wanted.empty()) return;
    const Index alignment = integer("general.alignment").value_or(32);
    if (alignment <= 0 || alignment > Index{1} << 31 ||
        !std::has_single_bit(static_cast<std::uint64_t>(alignment))) {
      detail::fail<ConfigError>(
          function, "general.alignment must be a power of two up to 2^31 but is ", alignment);
    }
    const auto mask = static_cast<std::uint64_t>(alignment) - 1;
    // No overflow, because the cursor lies within the file.
    const std::uint64_t data = (cursor.at() + mask) & ~mask;
    for (const Tensor& tensor : wanted) {
      const bool is_float = tensor.type == 0, is_half = tensor.type == 1;
      if (!is_float && !is_half) {
        detail::fail<ConfigError>(function, "the tensor ", tensor.name,
                                  " must be F32 (0) or F16 (1) but has the type ", tensor.type);
      }
      if (tensor.elements == 0 || tensor.elements > 65536) {
        detail::fail<ConfigError>(function, "the tensor ", tensor.name, " has ", tensor.elements,
                                  " elements; 1 to 65536 are allowed");
      }
      if ((tensor.offset & mask) != 0) {
        detail::fail<ConfigError>(function, "the tensor ", tensor.name, " begins at offset ",
                                  tensor.offset, ", which is not a multiple of the alignment ",
                                  alignment);
      }
      cursor.move_to(data, "the padding before the tensors");
      cursor.skip(tensor.offset, "a tensor");
      cursor.expect(tensor.elements, is_half ? 2 : 4, "a tensor");
      std::vector<double> values;
      values.reserve(static_cast<std::size_t>(tensor.elements));
      for (std::uint64_t i = 0; i < tensor.elements; ++i) {
        const float value = is_half
                                ? Half::from_bits(cursor.template number<std::uint16_t>("a tensor"))
                                : cursor.template number<float>("a tensor");
        values.push_back(static_cast<double>(value));
      }
      tensors_.emplace(tensor.name, std::move(values));
    }
  }

  const Value* find(std::string_view key) const {
    const auto at = values_.find(key);
    return at == values_.end() ? nullptr : &at->second;
  }

  template <class T>
  std::optional<T> get(std::string_view key, const char* expected) const {
    const Value* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (const T* held = std::get_if<T>(value)) return *held;
    detail::fail<ConfigError>(function, key, " must be ", expected);
  }

  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, std::vector<double>, std::less<>> tensors_;
  std::set<std::string, std::less<>> tensor_names_;
};

POSENC_END
