// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/tensor/scalar.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

POSENC_BEGIN

/// Format of a KvCache that stores each row in bytes of its own. A row is one head of the key or
/// value of a token, as floats. Int8PerTokenHead is a model. A user's type can be one, for example
/// with a scale per block of channels, or with 4 bits per number.
/// encode(row, stored) writes row.size() floats as row_bytes(row.size()) bytes, and decode(stored,
/// row) reads them. The functions are static.
///   Laws:   row_bytes() is at least 0 and depends on the number of channels alone; encode()
///           depends on the row alone; encode() of a decoded row gives the bytes that it was
///           decoded from, so that KvCache::restore() resumes a session bit-identically; encode()
///           and decode() do not throw, because they run on a device's threads.
///           tests/laws/kv_format_laws.hpp checks them
///   Throws: row_bytes() may throw ConfigError for a number of channels that the format does not
///           support. The constructor of KvCache calls it
template <class F>
concept KvRowFormat = requires(Index channels, std::span<const float> row,
                               std::span<std::byte> stored, std::span<const std::byte> read,
                               std::span<float> decoded) {
  { F::row_bytes(channels) } -> std::convertible_to<Index>;
  F::encode(row, stored);
  F::decode(read, decoded);
};

/// Format of the keys and values of a KvCache: an element type of tensors, or a KvRowFormat.
template <class S>
concept KvFormat = Scalar<S> || KvRowFormat<S>;

namespace detail {

/// Asserts that S is a KvFormat, with messages for incomplete row formats, bytes and all others.
template <class S>
struct CheckKvFormat {
  static constexpr bool is_row_format = requires(Index channels) { S::row_bytes(channels); };
  static_assert(!std::integral<S> || sizeof(S) > 1,
                "posenc::KvCache: bytes need a scale. For keys and values of 8 bits use "
                "posenc::Int8PerTokenHead");
  static_assert(
      !is_row_format || KvFormat<S>,
      "posenc::KvCache: a format of rows must provide static functions row_bytes(channels), "
      "encode(row, stored) and decode(stored, row), with spans of float and std::byte; see "
      "KvRowFormat in posenc/kv/kv_format.hpp");
  static constexpr bool value =
      std::disjunction_v<std::bool_constant<is_row_format>, CheckScalar<S>>;
};

}  // namespace detail
POSENC_END
