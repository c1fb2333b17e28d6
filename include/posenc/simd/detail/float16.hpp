// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <bit>
#include <cstdint>

// One value at a time between float and the 16 bits of IEEE half and bfloat16: rounded to nearest
// even, denormals kept, NaN stays NaN. The packs have the same for whole vectors.
POSENC_BEGIN
namespace detail {

inline float bfloat16_to_float(std::uint16_t bits) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t float_to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  // A NaN is made quiet, since its payload may lie in the bits that are dropped.
  const std::uint32_t rounded =
      nan ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>(rounded);
}

inline float half_to_float(std::uint16_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // infinity, or NaN made quiet
    const std::uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return std::bit_cast<float>(sign | 0x7f800000u | (magnitude << 13) | quiet);
  }
  // Moves the exponent by a product, which is exact and also normalises denormals.
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

inline std::uint16_t float_to_half(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  std::uint32_t rounded = 0;
  if (magnitude > 0x7f800000u) {
    rounded = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  } else if (magnitude >= 0x47800000u) {  // 2^16 and more, infinity too
    rounded = 0x7c00u;
  } else if (magnitude < 0x38800000u) {  // below 2^-14: let the sum's rounding drop the bits
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    rounded = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
  } else {
    rounded = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | rounded);
}

}  // namespace detail
POSENC_END
