// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <bit>
#include <cstdint>
#include <type_traits>

POSENC_STABLE_BEGIN

/// A bfloat16 number: the upper 16 bits of a float. It is a storage type, and arithmetic converts
/// it to float. Its memory layout is that of std::uint16_t.
///   Accuracy: a float is rounded to nearest even; denormals are kept; a NaN stays NaN and becomes
///             quiet
struct Bfloat16 {
  /// Leaves the number uninitialised, like a float. Bfloat16{} is zero.
  Bfloat16() = default;

  /// Rounds a float to nearest even. Magnitudes that round to 2^128 become infinity.
  POSENC_ALWAYS_INLINE constexpr explicit Bfloat16(float value) noexcept
      : bits_(rounded_bits(value)) {}

  /// Returns the number as a float, which is exact.
  POSENC_ALWAYS_INLINE constexpr operator float() const noexcept {  // NOLINT: exact
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
  }

  /// Returns the number with these bits, in the bfloat16 format.
  POSENC_ALWAYS_INLINE constexpr static Bfloat16 from_bits(std::uint16_t bits) noexcept {
    Bfloat16 number{};
    number.bits_ = bits;
    return number;
  }
  /// Returns the bits of the number, in the bfloat16 format.
  POSENC_ALWAYS_INLINE constexpr std::uint16_t bits() const noexcept { return bits_; }

 private:
  POSENC_ALWAYS_INLINE constexpr static std::uint16_t rounded_bits(float value) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
    // A NaN becomes quiet, because its payload may lie entirely in the dropped bits.
    const std::uint32_t rounded =
        is_nan ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return static_cast<std::uint16_t>(rounded);
  }

  std::uint16_t bits_;
};

static_assert(std::is_trivially_copyable_v<Bfloat16>);

POSENC_STABLE_END
