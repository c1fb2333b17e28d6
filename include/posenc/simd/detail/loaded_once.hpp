// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_BEGIN
namespace detail {

/// g++ 12 loads a value again for each use as an operand, and a kernel that lives by its loads is a
/// third slower for it.
template <class P>
POSENC_ALWAYS_INLINE P loaded_once(P a) noexcept {
#if defined(__GNUC__) && !defined(__clang__) && POSENC_HAS_SSE2 && \
    (defined(__x86_64__) || defined(__i386__))
  if constexpr (P::width > 1) asm("" : "+v"(a.v));
#endif
  return a;
}

}  // namespace detail
POSENC_END
