// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

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

/// The product of extents, or nothing where one of them is negative or an Index does not hold it. 0 times
/// anything is 0.
constexpr std::optional<Index> product_of(std::initializer_list<Index> extents) noexcept {
  constexpr Index most = (std::numeric_limits<Index>::max)();
  bool is_zero = false;
  for (const Index extent : extents) {
    if (extent < 0) return std::nullopt;
    is_zero = is_zero || extent == 0;
  }
  if (is_zero) return 0;
  Index product = 1;
  for (const Index extent : extents) {
    if (product > most / extent) return std::nullopt;
    product *= extent;
  }
  return product;
}

/// The same, or `otherwise`: for what a check refuses later.
constexpr Index product_or(Index otherwise, std::initializer_list<Index> extents) noexcept {
  const std::optional<Index> product = product_of(extents);
  return product ? *product : otherwise;
}

}  // namespace detail
POSENC_END
