// SPDX-License-Identifier: MIT
#pragma once

#include "reference/float16.hpp"
#include <posenc/simd/storage_format.hpp>

#include <cstdint>

/// 16-bit classes as users write them, from the definition of the formats.
namespace support {

/// Number of calls of the classes' own conversions. Vector code must not call them.
inline std::int64_t user_conversions = 0;

template <int digits, int max_exponent, int kind>
struct User16 {
  static constexpr reference::Format16 format{digits, max_exponent};
  std::uint16_t bits = 0;

  User16() = default;
  explicit User16(float x) : bits(reference::encode(format, static_cast<double>(x))) {
    ++user_conversions;
  }
  explicit operator float() const {
    ++user_conversions;
    return static_cast<float>(reference::decode(format, bits));
  }
};

using UserHalf = User16<11, 15, 0>;
using UserBfloat16 = User16<8, 127, 1>;
using UserFloat16 = User16<8, 127, 2>;      ///< names a format that posenc does not know
using NamelessFloat16 = User16<8, 127, 3>;  ///< names no format

}  // namespace support

template <>
struct posenc::StorageFormatOf<support::UserHalf> {
  static constexpr auto value = posenc::StorageFormat::Half;
};
template <>
struct posenc::StorageFormatOf<support::UserBfloat16> {
  static constexpr auto value = posenc::StorageFormat::Bfloat16;
};
template <>
struct posenc::StorageFormatOf<support::UserFloat16> {
  static constexpr auto value = posenc::StorageFormat::Custom16;
};
