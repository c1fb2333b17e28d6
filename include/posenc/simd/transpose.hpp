// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/pack.hpp>

#include <cstddef>
#include <utility>

POSENC_BEGIN
namespace detail {

/// One round moves the top bit of a row's number to the bottom of its lanes' numbers and the lanes'
/// top bit to the bottom of the row's; after log2(width) of them the two numbers are exchanged.
template <Index Rounds, class P, std::size_t... R>
POSENC_ALWAYS_INLINE void interleave_halves(P (&rows)[P::width],
                                            std::index_sequence<R...> half) noexcept {
  if constexpr (Rounds > 1) {
    P next[P::width];
    (interleave(rows[R], rows[R + sizeof...(R)], next[2 * R], next[2 * R + 1]), ...);
    interleave_halves<Rounds / 2>(next, half);
    ((rows[2 * R] = next[2 * R], rows[2 * R + 1] = next[2 * R + 1]), ...);
  }
}

}  // namespace detail

/// rows[i] lane j <-> rows[j] lane i.
///   Cost: width / 2 * log2(width) interleaves, or as many cheaper shuffles where the tier has a way of its own; all
///         in registers where 2 width of them are enough
template <class P>
POSENC_ALWAYS_INLINE void transpose(P (&rows)[P::width]) noexcept {
  if constexpr (requires { P::transpose(rows); }) {
    P::transpose(rows);
  } else {
    constexpr auto half = static_cast<std::size_t>(P::width / 2);
    detail::interleave_halves<P::width>(rows, std::make_index_sequence<half>());
  }
}

POSENC_END
