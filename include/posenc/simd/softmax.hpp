// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/exp.hpp>

#include <cstddef>
#include <limits>

POSENC_BEGIN
namespace detail {

/// scores[i] <- exp(scores[i] - highest) / total, in place. A score of -inf gives 0, and a row of them
/// all zeros.
///   Accuracy: 3 ulp of the largest terms; the sum has one chain a lane
///   Bits:     scores of -inf after the last other one change nothing
///   Cost:     three passes over the row
template <class Tier = tier::Best, class T>
void softmax_row(T* scores, Index n) noexcept {
  using P = Pack<T, Tier>;
  constexpr T lowest = -std::numeric_limits<T>::infinity();
  const Index whole = n / P::width * P::width, rest = n - whole;

  P high = P::broadcast(lowest);
  for (Index i = 0; i < whole; i += P::width) high = max(P::load(scores + i), high);
  T highest = maximum(high);
  for (Index i = whole; i < n; ++i) highest = scores[i] > highest ? scores[i] : highest;
  if (highest == lowest) {
    // No score is finite; NaN stays, everything else is zero.
    for (Index i = 0; i < n; ++i) scores[i] = scores[i] == lowest ? T{0} : scores[i];
    return;
  }

  const P top = P::broadcast(highest);
  P sums = P::zero();
  for (Index i = 0; i < whole; i += P::width) {
    const P e = exp(P::load(scores + i) - top);
    e.store(scores + i);
    sums = sums + e;
  }
  if (rest > 0) {
    T last[static_cast<std::size_t>(P::width)];
    P::broadcast(lowest).store(last);
    for (Index i = 0; i < rest; ++i) last[i] = scores[whole + i];
    const P e = exp(P::load(last) - top);
    e.store_partial(scores + whole, rest);
    sums = sums + e;
  }

  const P total = P::broadcast(sum(sums));
  for (Index i = 0; i < whole; i += P::width) (P::load(scores + i) / total).store(scores + i);
  if (rest > 0) {
    (P::load_partial(scores + whole, rest) / total).store_partial(scores + whole, rest);
  }
}

}  // namespace detail
POSENC_END
