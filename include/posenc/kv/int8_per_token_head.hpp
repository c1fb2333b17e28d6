// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kv/kv_format.hpp>
#include <posenc/simd/bfloat16.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
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
///   Source:   the scheme of vLLM's int8_per_token_head, with a scale of 16 instead of 32 bits.
///             ggml's Q8_0 has such a scale, as half, for every 32 channels
struct Int8PerTokenHead {
  /// Returns the size of a row of `channels` numbers: a scale and a byte per channel.
  static constexpr Index row_bytes(Index channels) noexcept {
    return channels + Index{scale_bytes};
  }

  /// Writes the scale and the integers of a row.
  ///   Shapes: row [D]; stored [row_bytes(D)], which does not overlap it
  static void encode(std::span<const float> row, std::span<std::byte> stored) noexcept {
    const float largest = largest_magnitude(row);
    Bfloat16 scale(largest / 127);
    // Multiples of a denormal scale would be too coarse.
    if (scale < (std::numeric_limits<float>::min)()) scale = Bfloat16{};
    std::memcpy(stored.data(), &scale, scale_bytes);
    std::byte* const integers = stored.data() + scale_bytes;
    if (scale == 0 || std::isnan(scale)) {
      std::fill_n(integers, row.size(), std::byte{0});
      return;
    }
    for_blocks(row.size(), [&](std::size_t first, auto count) {
      encode_block(row.data() + first, scale, integers + first, count);
    });
  }

  /// Writes the numbers of a stored row.
  ///   Shapes: stored [row_bytes(D)]; row [D], which does not overlap it
  static void decode(std::span<const std::byte> stored, std::span<float> row) noexcept {
    Bfloat16 scale;
    std::memcpy(&scale, stored.data(), scale_bytes);
    const std::byte* const integers = stored.data() + scale_bytes;
    for_blocks(row.size(), [&](std::size_t first, auto count) {
      decode_block(integers + first, scale, row.data() + first, count);
    });
  }

 private:
  static constexpr std::size_t scale_bytes = sizeof(Bfloat16);
  /// Numbers per loop of constant length. At -O2 g++ 12 vectorises only such loops, of arrays that
  /// do not overlap. At -O3 it unrolls loops of up to 16 steps instead: 60 ns instead of 14 for 128
  /// numbers.
  static constexpr std::size_t block = 32;

  template <class Work>
  static void for_blocks(std::size_t channels, const Work& work) noexcept {
    std::size_t d = 0;
    for (; d + block <= channels; d += block) {
      work(d, std::integral_constant<std::size_t, block>());
    }
    if (d < channels) work(d, channels - d);
  }

  /// Returns max |x|, or NaN if a number is not finite.
  static float largest_magnitude(std::span<const float> row) noexcept {
    // Magnitudes are compared as integers, whose order is the same; NaN are the largest.
    std::int32_t largest[block] = {};
    for_blocks(row.size(), [&](std::size_t first, auto count) {
      for (std::size_t i = 0; i < count; ++i) {
        const auto bits = std::bit_cast<std::int32_t>(row[first + i]) & 0x7fffffff;
        largest[i] = (std::max)(largest[i], bits);
      }
    });
    constexpr std::int32_t infinity = 0x7f800000;
    const std::int32_t bits = *std::max_element(largest, largest + block);
    return bits < infinity ? std::bit_cast<float>(bits) : std::numeric_limits<float>::quiet_NaN();
  }

  template <class Count>
  static void encode_block(const float* __restrict numbers, float scale,
                           std::byte* __restrict integers, Count count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      // The low bits of x + 1.5 * 2^23, whose ulp is 1, are the integer nearest to x.
      const auto bits = std::bit_cast<std::uint32_t>(numbers[i] / scale + 12582912.0F);
      integers[i] = static_cast<std::byte>(bits);
    }
  }
  template <class Count>
  static void decode_block(const std::byte* __restrict integers, float scale,
                           float* __restrict numbers, Count count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      numbers[i] = static_cast<float>(static_cast<std::int8_t>(integers[i])) * scale;
    }
  }
};

static_assert(KvRowFormat<Int8PerTokenHead>);

POSENC_END
