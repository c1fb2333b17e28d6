// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/pack.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

// Reads numbers along the diagonals of a table, or at nearby indices. All functions move numbers
// and compute none, so tiers give the same bits.
POSENC_BEGIN
namespace detail {

/// Signs for select_by_sign(): negative in lanes whose index has the bit `Step`.
template <class Real, Index Width, Index Step>
inline constexpr auto lane_bit_signs = [] {
  std::array<Real, std::size_t{Width}> signs{};
  for (Index u = 0; u < Width; ++u) {
    signs[static_cast<std::size_t>(u)] = (u & Step) != 0 ? Real{-1} : Real{1};
  }
  return signs;
}();

/// rows[t] lane u <- rows[t + (the bits of u up to Step)] lane u.
template <Index Step, class Real, class P, std::size_t Count>
POSENC_ALWAYS_INLINE void extract_diagonals_step(P (&rows)[Count]) noexcept {
  if constexpr (Step > 0) {
    constexpr std::size_t step{Step};
    const P moves = P::load(lane_bit_signs<Real, P::width, Step>.data());
    // These rows are read by later steps.
    [&]<std::size_t... T>(std::index_sequence<T...>) {
      ((rows[T] = select_by_sign(moves, rows[T + step], rows[T])), ...);
    }
    (std::make_index_sequence<static_cast<std::size_t>(P::width) + step - 1>());
    extract_diagonals_step<Step / 2, Real>(rows);
  }
}

/// rows[t] lane u <- rows[t + u] lane u, for the first P::width rows; the other rows are
/// overwritten.
///   Cost: log2(width) selections per row, instead of the width loads of a gather
template <class Real, class P>
POSENC_ALWAYS_INLINE void extract_diagonals(P (&rows)[2 * P::width - 1]) noexcept {
  extract_diagonals_step<P::width / 2, Real>(rows);
}

/// Gathers from[places[u]] into lane u.
///   ascending: places are sorted, not strictly. Numbers within one vector are then read with one
///       load, which may reach P::width numbers from the first place.
template <class P, class Real>
POSENC_ALWAYS_INLINE P gather(const Real* from, const std::int32_t* places,
                              [[maybe_unused]] bool ascending) noexcept {
  if constexpr (requires { P::gather_window(from, places); }) {
    const auto span = static_cast<std::uint32_t>(places[P::width - 1] - places[0]);
    if (ascending && span < std::uint32_t{P::width})
      return P::gather_window(from + places[0], places);
  }
  Real lanes[std::size_t{P::width}];
  for (Index u = 0; u < P::width; ++u) lanes[u] = from[places[u]];
  return P::load(lanes);
}

}  // namespace detail
POSENC_END
