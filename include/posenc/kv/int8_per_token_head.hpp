// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kv/kv_format.hpp>
#include <posenc/simd/bfloat16.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

POSENC_BEGIN

/// KvRowFormat of 8-bit integers with a scale for each token and head, for
/// `KvCache<Int8PerTokenHead>`. A number x of a row is stored as the integer nearest to x / scale,
/// ties to even, where scale is max |x| of the row / 127, rounded to bfloat16.
///   Layout:   scale, in the byte order of the processor, then one signed byte per channel
///   Accuracy: decoded numbers are the exact products integer * scale. If max |x| is below 2^-119,
///             all may be 0. If a number of a row is infinite or NaN, all become NaN
///   Memory:   D + 2 bytes per key and head, about half of bfloat16
///   Cost:     attention decodes and packs each tile once per query block
///   Source:   the scheme of vLLM's int8_per_token_head, with a scale of 16 instead of 32 bits. ggml's
///             Q8_0 has such a scale, as half, for every 32 channels
struct Int8PerTokenHead {
  static constexpr Index row_bytes(Index channels) noexcept {
    return channels + Index{scale_bytes};
  }

  static void encode(std::span<const float> row, std::span<std::byte> stored) noexcept {
    constexpr std::int32_t infinity = 0x7f800000;
    // Magnitudes are compared as integers, whose order is the same; NaN are the largest.
    std::int32_t most[block] = {};
    for_blocks(row.size(), [&](std::size_t first, auto count) {
      std::int32_t bits[block];
      std::memcpy(bits, row.data() + first, count * sizeof(float));
      for (std::size_t i = 0; i < count; ++i) {
        most[i] = (std::max)(most[i], bits[i] & 0x7fffffff);
      }
    });
    const std::int32_t largest = *std::max_element(most, most + block);
    const bool is_finite = largest < infinity;
    Bfloat16 scale(is_finite ? std::bit_cast<float>(largest) / 127
                             : std::numeric_limits<float>::quiet_NaN());
    // Fractions of denormal scales would be too coarse.
    if (scale < (std::numeric_limits<float>::min)()) scale = Bfloat16{};
    std::memcpy(stored.data(), &scale, scale_bytes);
    if (!is_finite || scale == 0) {
      std::fill(stored.begin() + scale_bytes, stored.end(), std::byte{0});
      return;
    }
    const float divisor = scale;
    for_blocks(row.size(), [&](std::size_t first, auto count) {
      float numbers[block];
      std::int8_t rounded[block];
      std::memcpy(numbers, row.data() + first, count * sizeof(float));
      for (std::size_t i = 0; i < count; ++i) {
        rounded[i] = static_cast<std::int8_t>(nearest_integer(numbers[i] / divisor));
      }
      std::memcpy(stored.data() + scale_bytes + first, rounded, count);
    });
  }

  static void decode(std::span<const std::byte> stored, std::span<float> row) noexcept {
    Bfloat16 stored_scale;
    std::memcpy(&stored_scale, stored.data(), scale_bytes);
    const float scale = stored_scale;
    for_blocks(row.size(), [&](std::size_t first, auto count) {
      std::int8_t integers[block];
      float numbers[block];
      std::memcpy(integers, stored.data() + scale_bytes + first, count);
      for (std::size_t i = 0; i < count; ++i) {
        numbers[i] = static_cast<float>(integers[i]) * scale;
      }
      std::memcpy(row.data() + first, numbers, count * sizeof(float));
    });
  }

 private:
  static constexpr std::size_t scale_bytes = sizeof(Bfloat16);
  /// Channels per loop of constant length, which compilers vectorise. The arrays of a block cannot
  /// alias the spans.
  static constexpr std::size_t block = 16;

  template <class Work>
  static void for_blocks(std::size_t channels, const Work& work) noexcept {
    std::size_t d = 0;
    for (; d + block <= channels; d += block) {
      work(d, std::integral_constant<std::size_t, block>());
    }
    if (d < channels) work(d, channels - d);
  }

  /// Returns the integer nearest to x, |x| < 2^22: the low bits of x + 1.5 * 2^23, whose ulp is 1.
  static std::int32_t nearest_integer(float x) noexcept {
    return std::bit_cast<std::int32_t>(x + 12582912.0F) - 0x4b400000;
  }
};

static_assert(KvRowFormat<Int8PerTokenHead>);

POSENC_END
