// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>

namespace reference {

/// relative_position_bucket as in T5's code, in long double; relative = key - query. If
/// the logarithm is exactly an integer, rounding must not give a lower one.
inline std::int64_t t5_bucket(std::int64_t relative, bool bidirectional, std::int64_t buckets,
                              std::int64_t max_distance) {
  std::int64_t result = 0, n = 0;
  if (bidirectional) {
    buckets /= 2;
    if (relative > 0) result += buckets;
    n = relative < 0 ? -relative : relative;
  } else {
    n = relative < 0 ? -relative : 0;
  }
  const std::int64_t max_exact = buckets / 2;
  if (n < max_exact) return result + n;
  const auto as_real = [](std::int64_t x) { return static_cast<long double>(x); };
  const long double position = std::log(as_real(n) / as_real(max_exact)) /
                               std::log(as_real(max_distance) / as_real(max_exact)) *
                               as_real(buckets - max_exact);
  const auto large = max_exact + static_cast<std::int64_t>(position + 1e-12L);
  return result + (large < buckets - 1 ? large : buckets - 1);
}

}  // namespace reference
