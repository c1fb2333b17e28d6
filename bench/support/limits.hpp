// SPDX-License-Identifier: MIT
#pragma once

#include "comparison.hpp"
#include <posenc/simd/pack.hpp>

#include <Eigen/Core>

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

// Passes that do nothing but move the bytes that a case has to move, or multiply and add as often:
// what no encoding and no attention can beat.
namespace bench {

constexpr float unit = 1;  // a factor that leaves x as it is

// Eigen's arrays, because they use the widest vectors of the flags with every compiler: g++ makes
// 256-bit loops for AVX-512, which also wait for the front end.

/// x *= c.
inline void scale(float* x, Index count) {
  Eigen::Map<Eigen::ArrayXf>(opaque(x), count) *= *opaque(&unit);
}

/// x[r][0 .. width) *= c for every row: rows whose other channels stay where they are.
template <Index width>
void scale_rows(float* x, Index rows, Index stride) {
  const float factor = *opaque(&unit);
  float* data = opaque(x);
  for (Index r = 0; r < rows; ++r, data += stride) {
    Eigen::Map<Eigen::Array<float, width, 1>>{data} *= factor;
  }
}

/// x += t, for cases that read a table as large as x.
inline void add_table(float* x, const float* t, Index count) {
  Eigen::Map<Eigen::ArrayXf>(opaque(x), count) +=
      Eigen::Map<const Eigen::ArrayXf>(opaque(t), count);
}

/// x = c, for cases that only write.
inline void fill(float* x, Index count) {
  Eigen::Map<Eigen::ArrayXf>(opaque(x), count).setConstant(*opaque(&unit));
}

inline void copy(float* to, const float* from, Index count) {
  std::memcpy(opaque(to), opaque(from), static_cast<std::size_t>(count) * sizeof(float));
}

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

/// Reads x and adds it up, in four streams: of loops with one to eight of them, with and without
/// prefetches, this one is the fastest at most sizes and never far behind.
///   count: a multiple of 8 vectors, for the rest is left out
inline void read(const float* x, Index count) {
  using detail::Vector;
  constexpr Index streams = 4, together = 2;
  const float* data = opaque(x);
  const Index part = count / streams;
  std::array<Vector, streams * together> sums;
  sums.fill(Vector::zero());
  for (Index i = 0; i + together * Vector::width <= part; i += together * Vector::width) {
    detail::unrolled<streams * together>([&](std::size_t n) {
      const auto stream = static_cast<Index>(n) / together, v = static_cast<Index>(n) % together;
      sums[n] = sums[n] + Vector::load(data + stream * part + i + v * Vector::width);
    });
  }
  detail::keep_sum(sums);
}

/// Floating point operations in a call of multiply_add().
constexpr double multiply_add_flop =
    2.0 * static_cast<double>(detail::chains * detail::links * detail::Vector::width);

/// The peak of the tier that runs: chains of x = x / 2 + 1 / 2 in registers.
inline void multiply_add() {
  using detail::Vector;
  const float half = 0.5f;
  const Vector factor = Vector::broadcast(*opaque(&half));
  std::array<Vector, detail::chains> x;
  x.fill(factor);
  for (Index link = opaque(detail::links); link > 0; --link) {
    detail::unrolled<detail::chains>([&](std::size_t n) { x[n] = mul_add(x[n], factor, factor); });
  }
  detail::keep_sum(x);
}

}  // namespace bench
