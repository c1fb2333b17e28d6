// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/options.hpp>
#include <posenc/core/detail/random_bits.hpp>
#include <posenc/core/error.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

POSENC_BEGIN
namespace detail {

inline void check_dropout(const char* function, const Dropout& dropout) {
  if (!(dropout.probability >= 0 && dropout.probability < 1)) {
    fail<ConfigError>(function, "the dropout probability must lie in [0, 1) but is ",
                      dropout.probability);
  }
}

// Dropout hashes two words, one of the row and one of the key. So a kernel computes the words of a
// tile's keys once, and each probability costs two 32-bit multiplications.

inline std::uint64_t dropout_word_of_row(const Dropout& dropout, Index batch, Index head,
                                         double query_position) noexcept {
  std::uint64_t bits = mix_bits(dropout.seed);
  bits = mix_bits(bits ^ static_cast<std::uint64_t>(batch));
  bits = mix_bits(bits ^ static_cast<std::uint64_t>(head));
  // Adding 0 maps both zeros to one bit pattern.
  return mix_bits(bits ^ std::bit_cast<std::uint64_t>(query_position + 0.0));
}

inline std::uint64_t dropout_word_of_key(double key_position) noexcept {
  return mix_bits(std::bit_cast<std::uint64_t>(key_position + 0.0));
}

/// Returns a hash that is uniform over all 32-bit numbers. The halves of the words enter at two
/// points, so rows with one equal half still differ. The steps are those of the lowbias32 family
/// (Wellons 2018).
constexpr std::uint32_t dropout_bits(std::uint32_t row_low, std::uint32_t row_high,
                                     std::uint32_t key_low, std::uint32_t key_high) noexcept {
  std::uint32_t x = row_low ^ key_low;
  x = (x ^ (x >> 16)) * 0x21f0aaadu;
  x ^= row_high + key_high;
  x = (x ^ (x >> 15)) * 0x735a2d97u;
  return x ^ (x >> 15);
}

/// Returns the threshold below which a hash is dropped.
inline std::uint32_t dropout_threshold(double probability) noexcept {
  return static_cast<std::uint32_t>((std::min)(std::ceil(probability * 0x1p32), 0x1p32 - 1));
}

inline double dropout_scale(double probability) noexcept { return 1 / (1 - probability); }

}  // namespace detail

/// Returns the factor of dropout for one attention probability: 0 or 1 / (1 - probability). It is 0
/// with the given probability, rounded up to a multiple of 2^-32.
///   Throws: ConfigError if the probability is not in [0, 1)
inline double dropout_factor(const Dropout& dropout, Index batch, Index head, double query_position,
                             double key_position) {
  detail::check_dropout("dropout_factor", dropout);
  const std::uint64_t row = detail::dropout_word_of_row(dropout, batch, head, query_position);
  const std::uint64_t key = detail::dropout_word_of_key(key_position);
  const std::uint32_t bits =
      detail::dropout_bits(static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(row >> 32),
                           static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32));
  return bits < detail::dropout_threshold(dropout.probability)
             ? 0.0
             : detail::dropout_scale(dropout.probability);
}

POSENC_END
