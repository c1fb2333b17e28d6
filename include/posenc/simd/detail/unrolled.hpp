// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstddef>
#include <utility>

POSENC_BEGIN
namespace detail {

/// step(0) .. step(Count - 1). g++ 12 unrolls a loop after it has decided what lies in registers: an array that
/// the loop indexes goes by way of the stack, before and after a kernel that has it in registers.
template <Index Count, class Step>
POSENC_ALWAYS_INLINE void unrolled(const Step& step) noexcept {
  [&]<std::size_t... N>(std::index_sequence<N...>) POSENC_INLINE_LAMBDA {
    (step(static_cast<Index>(N)), ...);
  }
  (std::make_index_sequence<static_cast<std::size_t>(Count)>());
}

}  // namespace detail
POSENC_END
