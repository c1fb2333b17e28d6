// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/options.hpp>
#include <posenc/core/detail/random_bits.hpp>
#include <posenc/core/error.hpp>

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

}  // namespace detail

/// What dropout multiplies one attention probability with: 0 or 1 / (1 - probability).
inline double dropout_factor(const Dropout& dropout, Index batch, Index head, double query_position,
                             double key_position) noexcept {
  std::uint64_t bits = detail::mix_bits(dropout.seed);
  bits = detail::mix_bits(bits ^ static_cast<std::uint64_t>(batch));
  bits = detail::mix_bits(bits ^ static_cast<std::uint64_t>(head));
  // Adding 0 makes one pattern of the two zeros.
  bits = detail::mix_bits(bits ^ std::bit_cast<std::uint64_t>(query_position + 0.0));
  bits = detail::mix_bits(bits ^ std::bit_cast<std::uint64_t>(key_position + 0.0));
  return detail::uniform(bits) < dropout.probability ? 0.0 : 1 / (1 - dropout.probability);
}

POSENC_END
