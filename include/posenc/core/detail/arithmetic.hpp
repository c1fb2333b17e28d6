// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/list_view.hpp>

#include <limits>
#include <optional>

// Checked arithmetic for numbers that callers pass in: extents, strides, offsets, counts. They can
// have any value, so sums and products report overflow.
POSENC_BEGIN
namespace detail {

/// Returns a + b, or nothing if an Index cannot hold it.
constexpr std::optional<Index> checked_add(Index a, Index b) noexcept {
  constexpr Index max_index = (std::numeric_limits<Index>::max)();
  constexpr Index min_index = (std::numeric_limits<Index>::min)();
  if (b > 0 ? a > max_index - b : a < min_index - b) return std::nullopt;
  return a + b;
}

/// Returns a * b, or nothing if an Index cannot hold it. Neither factor may be negative.
constexpr std::optional<Index> checked_mul(Index a, Index b) noexcept {
#if defined(__GNUC__)
  Index product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
#else
  if (b != 0 && a > (std::numeric_limits<Index>::max)() / b) return std::nullopt;
  return a * b;
#endif
}

/// Returns the product of extents, or nothing if one is negative or an Index cannot hold it. If any
/// extent is 0, the product is 0, however large the others are.
constexpr std::optional<Index> checked_mul(ListView<Index> extents) noexcept {
  bool is_zero = false;
  for (const Index extent : extents) {
    if (extent < 0) return std::nullopt;
    is_zero = is_zero || extent == 0;
  }
  if (is_zero) return 0;
  std::optional<Index> product = 1;
  for (const Index extent : extents) {
    if (product) product = checked_mul(*product, extent);
  }
  return product;
}

/// Returns the product of extents, or `otherwise` if there is none. Use it if a later check rejects
/// `otherwise`.
constexpr Index checked_mul_or(Index otherwise, ListView<Index> extents) noexcept {
  return checked_mul(extents).value_or(otherwise);
}

}  // namespace detail
POSENC_END
