// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstdint>

// Random numbers without state: functions of a seed and of the index that they are drawn for.
POSENC_BEGIN
namespace detail {

/// Applies the finaliser of SplitMix64: every input bit influences every output bit.
///   Source: Steele, Lea, Flood 2014
constexpr std::uint64_t mix_bits(std::uint64_t x) noexcept {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/// Returns a uniform number in [0, 1) from the upper 53 bits.
constexpr double uniform(std::uint64_t bits) noexcept {
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace detail
POSENC_END
