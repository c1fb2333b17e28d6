// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/pack.hpp>

#include <concepts>

POSENC_BEGIN
namespace detail {

/// Adds values[u] to scores[u] for 0 <= u < count. Not inlined, because g++ 12 unrolls the loop
/// over a buffer of constant size in full, and stores every vector of scores a second time, to the
/// stack. That takes a tenth of the time of WindowBias::add().
template <class Tier = tier::Best, std::floating_point Real>
POSENC_NOINLINE void add_values(const Real* values, Real* scores, Index count) noexcept {
  using P = Pack<Real, Tier>;
  Index u = 0;
  for (; u + P::width <= count; u += P::width) {
    (P::load(scores + u) + P::load(values + u)).store(scores + u);
  }
  if (u < count) {
    const P sum = P::load_partial(scores + u, count - u) + P::load_partial(values + u, count - u);
    sum.store_partial(scores + u, count - u);
  }
}

}  // namespace detail
POSENC_END
