// SPDX-License-Identifier: MIT
#pragma once

#include "opaque.hpp"
#include <posenc/simd/pack.hpp>

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <utility>

// Peak of the multiply-add units: the limit of arithmetic, and a measure of the processor's current
// clock.
namespace bench {

namespace detail {

using Vector = posenc::Pack<float, posenc::tier::Best>;

/// Number of sums: enough for the latency of the adders, few enough for every tier's registers.
constexpr Index chains = 12, links = 4096;

/// Calls step(i) for every i < count, unrolled by hand, because g++ interchanges or keeps such
/// loops.
template <std::size_t count, class Step>
POSENC_ALWAYS_INLINE void unrolled(const Step& step) {
  [&]<std::size_t... I>(std::index_sequence<I...>) { (step(I), ...); }
  (std::make_index_sequence<count>());
}

template <std::size_t count>
void keep_sum(const std::array<Vector, count>& parts) {
  Vector total = parts[0];
  for (std::size_t i = 1; i < count; ++i) total = total + parts[i];
  benchmark::DoNotOptimize(sum(total));
}

}  // namespace detail

/// Floating-point operations of a call of multiply_add().
constexpr double multiply_add_flop =
    2.0 * static_cast<double>(detail::chains * detail::links * detail::Vector::width);

/// Runs at the peak of the current tier: chains of x = x / 2 + 1 / 2 in registers.
inline void multiply_add() {
  using detail::Vector;
  const float half = 0.5f;
  const Vector factor = Vector::broadcast(*opaque(&half));
  // Starts are separate, because the compiler could otherwise merge all chains.
  std::array<Vector, detail::chains> x;
  for (Vector& start : x) start = Vector::broadcast(*opaque(&half));
  for (Index link = opaque(detail::links); link > 0; --link) {
    detail::unrolled<detail::chains>([&](std::size_t n) { x[n] = mul_add(x[n], factor, factor); });
  }
  detail::keep_sum(x);
}

}  // namespace bench
