// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>

POSENC_BEGIN
namespace detail {

/// True if floating-point sums are computed in the order in which they are written. The volatile
/// number is unknown to the compiler. Flags that allow reassociation let it cancel the two
/// constants.
POSENC_ALWAYS_INLINE bool has_strict_fp_order() noexcept {
  const volatile double third = 1.0 / 3;
  const double x = third;
  constexpr double without_fraction = 0x1.8p52;
  return (x + without_fraction) - without_fraction != x;
}

/// Throws if the compiler reassociates floating-point sums. config.hpp cannot detect this: clang++
/// has macros for -ffast-math, but none for -fassociative-math alone. Types that depend on the
/// order of sums call it in their constructors: angles and double-double results.
///   Throws: ConfigError, unless POSENC_ALLOW_FAST_MATH is defined
POSENC_ALWAYS_INLINE void check_strict_fp_order(const char* function) {
#ifndef POSENC_ALLOW_FAST_MATH
  if (!has_strict_fp_order()) {
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
