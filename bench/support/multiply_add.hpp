// SPDX-License-Identifier: MIT
#pragma once

#include "opaque.hpp"
#include <posenc/simd/pack.hpp>

#include <benchmark/benchmark.h>

#include <array>
#include <cstddef>
#include <utility>

// The peak of the units that multiply and add: what bounds arithmetic, and what tells at which clock
// the processor runs just now.
namespace bench {

namespace detail {

using Vector = posenc::Pack<float, posenc::tier::Best>;

/// What keeps the units busy that add: enough sums for their latency, few enough for every tier's
/// registers.
constexpr Index chains = 12, links = 4096;

/// step(i) for every i < count: unrolled by hand, because g++ interchanges or keeps such loops.
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

/// Floating point operations in a call of multiply_add().
constexpr double multiply_add_flop =
    2.0 * static_cast<double>(detail::chains * detail::links * detail::Vector::width);

/// The peak of the tier that runs: chains of x = x / 2 + 1 / 2 in registers.
inline void multiply_add() {
  using detail::Vector;
  const float half = 0.5f;
  const Vector factor = Vector::broadcast(*opaque(&half));
  // Each start by itself, or the compiler could make one chain of all.
  std::array<Vector, detail::chains> x;
  for (Vector& start : x) start = Vector::broadcast(*opaque(&half));
  for (Index link = opaque(detail::links); link > 0; --link) {
    detail::unrolled<detail::chains>([&](std::size_t n) { x[n] = mul_add(x[n], factor, factor); });
  }
  detail::keep_sum(x);
}

}  // namespace bench
