// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_BEGIN
namespace detail {

/// Returns `a` and keeps it in a vector register, by an empty asm. Without it g++ 12 repeats the
/// load as a memory operand of every use, and load-bound kernels are a third slower.
template <class P>
POSENC_ALWAYS_INLINE P pin_in_register(P a) noexcept {
#if defined(__GNUC__) && !defined(__clang__) && POSENC_HAS_SSE2 && \
    (defined(__x86_64__) || defined(__i386__))
  if constexpr (P::width > 1) asm("" : "+v"(a.v));
#endif
  return a;
}

}  // namespace detail
POSENC_END
