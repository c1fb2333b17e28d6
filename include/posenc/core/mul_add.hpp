// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cmath>

POSENC_BEGIN

/// Returns a * b + c, fused if the hardware has FMA. Use it instead of the operators where the bits
/// must not depend on whether a compiler contracts them.
template <class T>
inline T mul_add(T a, T b, T c) noexcept {
#if POSENC_HAS_FMA
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

POSENC_END
