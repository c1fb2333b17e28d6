// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Returns the indices of values in ascending order of the values, which must not be NaN. Equal
/// values keep their order.
inline std::vector<std::size_t> argsort(const std::vector<double>& values) {
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < values.size(); ++n) order.push_back(n);
  std::sort(order.data(), order.data() + order.size(), [&](std::size_t a, std::size_t b) {
    return values[a] != values[b] ? values[a] < values[b] : a < b;
  });
  return order;
}

}  // namespace detail
POSENC_END
