// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cmath>

POSENC_BEGIN

/// a * b + c, fused where the hardware fuses; written by name so that no compiler's contraction
/// decides the bits.
template <class T>
inline T mul_add(T a, T b, T c) noexcept {
#if POSENC_HAS_FMA
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

POSENC_END
