// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>

POSENC_BEGIN
namespace detail {

/// Converts `count` numbers: out[i] <- in[i].
template <class Tier, class S, class T>
void convert_row(const T* in, Index count, S* out) noexcept {
  using P = Pack<Compute<T>, Tier>;
  Index i = 0;
  for (; i + P::width <= count; i += P::width) store_as(load_as<P>(in + i), out + i);
  if (i < count) store_partial_as(load_partial_as<P>(in + i, count - i), out + i, count - i);
}

}  // namespace detail
POSENC_END
