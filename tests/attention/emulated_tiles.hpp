// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/matrix_tiles.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace attention_test {

/// What the processor's do, number for number: posenc::detail::AmxTiles.
class EmulatedTiles {
 public:
  explicit EmulatedTiles(const posenc::detail::TileShapes& shapes) noexcept : shapes_(shapes) {}

  template <int Tile>
  void zero() noexcept {
    registers_[Tile] = {};
  }
  /// Rows that lie `stride` bytes apart.
  template <int Tile>
  void load(const void* from, posenc::Index stride) noexcept {
    const auto* row = static_cast<const std::byte*>(from);
    for (std::size_t i = 0; i < shapes_.rows[Tile]; ++i, row += stride) {
      std::memcpy(registers_[Tile][i].data(), row, shapes_.bytes[Tile]);
    }
  }
  template <int Tile>
  void store(void* to, posenc::Index stride) const noexcept {
    auto* row = static_cast<std::byte*>(to);
    for (std::size_t i = 0; i < shapes_.rows[Tile]; ++i, row += stride) {
      std::memcpy(row, registers_[Tile][i].data(), shapes_.bytes[Tile]);
    }
  }
  /// Sum(m, n) += sum over k of A(m, 2k) B(k, 2n) + A(m, 2k + 1) B(k, 2n + 1): sums of floats, A and B of
  /// bfloat16. Even and odd products are added up apart, and denormals are zero wherever they occur.
  template <int Sum, int A, int B>
  void add_products() noexcept {
    for (std::size_t m = 0; m < shapes_.rows[Sum]; ++m) {
      for (std::size_t n = 0; n < shapes_.bytes[Sum] / sizeof(float); ++n) {
        float even = 0, odd = 0;
        for (std::size_t k = 0; k < shapes_.rows[B]; ++k) {
          even = flushed(fma(number(A, m, 2 * k), number(B, k, 2 * n), even));
          odd = flushed(fma(number(A, m, 2 * k + 1), number(B, k, 2 * n + 1), odd));
        }
        float sum;
        std::byte* const place = registers_[Sum][m].data() + n * sizeof(float);
        std::memcpy(&sum, place, sizeof(sum));
        sum = flushed(sum + flushed(even + odd));
        std::memcpy(place, &sum, sizeof(sum));
      }
    }
  }

 private:
  /// Products of two bfloat16 are exact in double, and so is what double adds to them but for far ones.
  static float fma(float a, float b, float c) noexcept {
    return static_cast<float>(static_cast<double>(a) * static_cast<double>(b) +
                              static_cast<double>(c));
  }
  static float flushed(float x) noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    return (bits & 0x7f800000U) == 0 ? std::bit_cast<float>(bits & 0x80000000U) : x;
  }
  /// The i-th bfloat16 of a row.
  float number(int tile, std::size_t row, std::size_t i) const noexcept {
    std::uint16_t bits;
    std::memcpy(&bits, registers_[static_cast<std::size_t>(tile)][row].data() + i * sizeof(bits),
                sizeof(bits));
    return flushed(std::bit_cast<float>(std::uint32_t{bits} << 16));
  }

  posenc::detail::TileShapes shapes_;
  std::array<std::array<std::array<std::byte, 64>, 16>, 8> registers_{};
};

}  // namespace attention_test
