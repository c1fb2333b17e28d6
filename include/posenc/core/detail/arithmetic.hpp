// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/list_view.hpp>

#include <initializer_list>
#include <limits>
#include <optional>

// Arithmetic on what callers hand in (extents, strides, offsets, counts), which may be anything: a sum or
// a product is looked at before it is used.
POSENC_BEGIN
namespace detail {

/// a + b, or nothing where an Index does not hold it.
constexpr std::optional<Index> sum_of(Index a, Index b) noexcept {
  constexpr Index most = (std::numeric_limits<Index>::max)();
  constexpr Index least = (std::numeric_limits<Index>::min)();
  if (b > 0 ? a > most - b : a < least - b) return std::nullopt;
  return a + b;
}

/// a * b of numbers that are not negative, or nothing where an Index does not hold it.
constexpr std::optional<Index> product_of(Index a, Index b) noexcept {
#if defined(__GNUC__)
  Index product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
#else
  if (b != 0 && a > (std::numeric_limits<Index>::max)() / b) return std::nullopt;
  return a * b;
#endif
}

/// The product of extents, or nothing where one of them is negative or an Index does not hold it. 0 times
/// anything is 0.
constexpr std::optional<Index> product_of(ListView<Index> extents) noexcept {
  bool is_zero = false;
  for (const Index extent : extents) {
    if (extent < 0) return std::nullopt;
    is_zero = is_zero || extent == 0;
  }
  if (is_zero) return 0;
  std::optional<Index> product = 1;
  for (const Index extent : extents) {
    if (product) product = product_of(*product, extent);
  }
  return product;
}

/// The same, or `otherwise`: for what a check refuses later.
constexpr Index product_or(Index otherwise, std::initializer_list<Index> extents) noexcept {
  return product_of(extents).value_or(otherwise);
}

}  // namespace detail
POSENC_END
