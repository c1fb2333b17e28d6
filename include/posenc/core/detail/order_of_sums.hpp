// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>

POSENC_BEGIN
namespace detail {

/// Whether sums are computed as they are written. The compiler does not know the number, but flags that allow
/// it to reorder sums make it see that the other two cancel.
POSENC_ALWAYS_INLINE bool keeps_order_of_sums() noexcept {
  const volatile double third = 1.0 / 3;
  const double x = third;
  constexpr double without_fraction = 0x1.8p52;
  return (x + without_fraction) - without_fraction != x;
}

/// Refuses what config.hpp cannot: clang++ tells of -ffast-math by macros, but not of its parts. Called by who
/// counts on the order of sums: angles, and what is made in double-double.
///   Throws: ConfigError
POSENC_ALWAYS_INLINE void check_order_of_sums(const char* function) {
#ifndef POSENC_ALLOW_FAST_MATH
  if (!keeps_order_of_sums()) {
    fail<ConfigError>(
        function,
        "-fassociative-math, a part of -funsafe-math-optimizations, breaks exact angles; ",
        "compile without it, or define POSENC_ALLOW_FAST_MATH to give up the accuracy");
  }
#else
  (void)function;
#endif
}

}  // namespace detail
POSENC_END
