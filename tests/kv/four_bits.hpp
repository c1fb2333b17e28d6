// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace kv_format_test {

using posenc::Index;

/// A user's KvRowFormat: 4 bits per number, with a power of two as scale for each token and head.
struct FourBits {
  static Index row_bytes(Index channels) {
    if (channels % 2 != 0) throw posenc::ConfigError("FourBits: odd number of channels");
    return 1 + channels / 2;
  }
  static void encode(std::span<const float> row, std::span<std::byte> stored) {
    float most = 0;
    bool finite = true;
    for (const float x : row) {
      finite = finite && std::isfinite(x);
      most = std::max(most, std::abs(x));
    }
    // 127 stands for a row that is not finite. Numbers that are too small for an exponent are zero.
    int exponent = finite ? -126 : 127;
    if (finite && most > 0x1p-120F) exponent = std::ilogb(most) - 2;
    const bool is_zero = exponent == -126 || !finite;
    stored[0] = static_cast<std::byte>(exponent);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const bool low = i % 2 == 0;
      const float scaled = is_zero ? 0.0F : std::nearbyint(std::ldexp(row[i], -exponent));
      const auto bits = static_cast<unsigned>(std::clamp(scaled, -7.0F, 7.0F) + 8);
      auto& byte = stored[1 + i / 2];
      byte = low ? static_cast<std::byte>(bits) : byte | static_cast<std::byte>(bits << 4);
    }
  }
  static void decode(std::span<const std::byte> stored, std::span<float> row) {
    const int exponent = static_cast<std::int8_t>(stored[0]);
    for (std::size_t i = 0; i < row.size(); ++i) {
      const auto byte = std::to_integer<unsigned>(stored[1 + i / 2]);
      const int integer = static_cast<int>(i % 2 == 0 ? byte & 15u : byte >> 4) - 8;
      row[i] = exponent == 127 ? std::numeric_limits<float>::quiet_NaN()
                               : std::ldexp(static_cast<float>(integer), exponent);
    }
  }
};

}  // namespace kv_format_test
