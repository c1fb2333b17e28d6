// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstddef>
#include <utility>

POSENC_BEGIN
namespace detail {

/// Calls step(0) .. step(Count - 1), without a loop if code is optimised. g++ 12 unrolls a loop
/// only after it has chosen which arrays live in registers. An array indexed by the loop is
/// therefore copied through the stack before and after a kernel that keeps it in registers.
template <Index Count, class Step>
POSENC_ALWAYS_INLINE void unrolled(const Step& step) noexcept {
#if defined(__OPTIMIZE__) || defined(_MSC_VER)
  [&]<std::size_t... N>(std::index_sequence<N...>) POSENC_INLINE_LAMBDA {
    (step(static_cast<Index>(N)), ...);
  }
  (std::make_index_sequence<static_cast<std::size_t>(Count)>());
#else
  for (Index n = 0; n < Count; ++n) step(n);
#endif
}

}  // namespace detail
POSENC_END
