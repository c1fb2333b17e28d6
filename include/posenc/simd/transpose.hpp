// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/pack.hpp>

#include <cstddef>
#include <utility>

POSENC_BEGIN
namespace detail {

/// Runs the remaining rounds of a transposition network. One round moves the top bit of the row
/// index to the bottom of the lane index, and the top bit of the lane index to the bottom of the
/// row index. After log2(width) rounds the two indices are exchanged.
template <Index Rounds, class P, std::size_t... R>
POSENC_ALWAYS_INLINE void transpose_by_rounds(P (&rows)[P::width],
                                              std::index_sequence<R...> half) noexcept {
  if constexpr (Rounds > 1) {
    P next[P::width];
    (interleave(rows[R], rows[R + sizeof...(R)], next[2 * R], next[2 * R + 1]), ...);
    transpose_by_rounds<Rounds / 2>(next, half);
    ((rows[2 * R] = next[2 * R], rows[2 * R + 1] = next[2 * R + 1]), ...);
  }
}

}  // namespace detail

/// Exchanges lane j of rows[i] and lane i of rows[j].
///   Cost: width / 2 * log2(width) calls of interleave(), or as many cheaper shuffles if the tier
///         has Pack::transpose(); no memory access if there are 2 width registers
template <class P>
POSENC_ALWAYS_INLINE void transpose(P (&rows)[P::width]) noexcept {
  if constexpr (requires { P::transpose(rows); }) {
    P::transpose(rows);
  } else {
    constexpr auto half = static_cast<std::size_t>(P::width / 2);
    detail::transpose_by_rounds<P::width>(rows, std::make_index_sequence<half>());
  }
}

POSENC_END
