// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/pack.hpp>

#include <bit>
#include <cstdint>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// Returns `value`, or 0 in lanes where `weight` is 0. A product with the weight would be NaN there
/// if the value is infinite or NaN.
template <class T, class Tier>
POSENC_ALWAYS_INLINE Pack<T, Tier> unless_zero(Pack<T, Tier> weight, Pack<T, Tier> value) noexcept {
  using P = Pack<T, Tier>;
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  // The magnitude of 0 alone becomes negative if 1 is subtracted from its bits.
  const P magnitude = weight & P::broadcast(std::bit_cast<T>(~Bits{0} >> 1));
  const P minus_1 = P::broadcast(std::bit_cast<T>(~Bits{0}));
  return select_by_sign(add_bits(magnitude, minus_1), P::zero(), value);
}

}  // namespace detail
POSENC_END
