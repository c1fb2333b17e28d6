// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <bit>
#include <cstdint>
#include <type_traits>

POSENC_STABLE_BEGIN

/// An IEEE 754 binary16 number (half precision). It is a storage type, and arithmetic converts it
/// to float. Its memory layout is that of std::uint16_t.
///   Accuracy: a float is rounded to nearest even; denormals are kept; a NaN stays NaN and becomes
///             quiet
struct Half {
  /// Leaves the number uninitialised, like a float. Half{} is zero.
  Half() = default;

  /// Rounds a float to nearest even. Magnitudes from 65520 on become infinity.
  POSENC_ALWAYS_INLINE constexpr explicit Half(float value) noexcept : bits_(rounded_bits(value)) {}

  /// Returns the number as a float, which is exact. A NaN becomes quiet.
  POSENC_ALWAYS_INLINE constexpr operator float() const noexcept {  // NOLINT: exact
    const std::uint32_t sign = (bits_ & 0x8000u) << 16;
    const std::uint32_t magnitude = bits_ & 0x7fffu;
    if (magnitude >= 0x7c00u) {  // infinity, or NaN made quiet
      const std::uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
      return std::bit_cast<float>(sign | 0x7f800000u | (magnitude << 13) | quiet);
    }
    // The product shifts the exponent. It is exact and also normalises denormals.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
  }

  /// Returns the number with these bits, in the binary16 format.
  POSENC_ALWAYS_INLINE constexpr static Half from_bits(std::uint16_t bits) noexcept {
    Half number{};
    number.bits_ = bits;
    return number;
  }
  /// Returns the bits of the number, in the binary16 format.
  POSENC_ALWAYS_INLINE constexpr std::uint16_t bits() const noexcept { return bits_; }

 private:
  POSENC_ALWAYS_INLINE constexpr static std::uint16_t rounded_bits(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    std::uint32_t rounded = 0;
    if (magnitude > 0x7f800000u) {
      rounded = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    } else if (magnitude >= 0x47800000u) {  // 2^16 and more, and infinity
      rounded = 0x7c00u;
    } else if (magnitude < 0x38800000u) {  // below 2^-14: the sum's rounding drops the bits
      const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
      rounded = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
    } else {
      rounded = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    }
    return static_cast<std::uint16_t>(sign | rounded);
  }

  std::uint16_t bits_;
};

static_assert(std::is_trivially_copyable_v<Half>);

POSENC_STABLE_END
