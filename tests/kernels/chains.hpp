// SPDX-License-Identifier: MIT
#pragma once

#include "simd/tiers.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/core/config.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

// Inputs of products, and their comparison with a plain chain of multiply-adds.
namespace kernels_test {

template <class T>
std::vector<T> random_numbers(posenc::Index count, std::uint64_t seed) {
  std::vector<T> numbers(static_cast<std::size_t>(count));
  support::Random(seed).fill_normal(numbers);
  return numbers;
}

/// True if a product equals that of the chain.
template <class T>
bool close(T a, T b) {
  // Without FMA instructions, compilers may or may not round the products of the plain chain.
  if constexpr (POSENC_HAS_FMA != 0) {
    return tiers::same(a, b);
  } else {
    return std::abs(a - b) <= 200 * std::numeric_limits<T>::epsilon();
  }
}

}  // namespace kernels_test
