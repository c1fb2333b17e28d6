// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

POSENC_BEGIN
namespace detail {

/// The indices of values, none of them NaN, from the least to the greatest; of equal ones the first comes first.
inline std::vector<std::size_t> rising_order(const std::vector<double>& values) {
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < values.size(); ++n) order.push_back(n);
  std::sort(order.data(), order.data() + order.size(), [&](std::size_t a, std::size_t b) {
    return values[a] != values[b] ? values[a] < values[b] : a < b;
  });
  return order;
}

}  // namespace detail
POSENC_END
