// SPDX-License-Identifier: MIT
// Tensors with extents of 0.
#pragma once

#include "support/heads.hpp"

namespace empty_case {

using posenc::Index;

inline void fill(support::Heads<float>& x, float value) {
  x.for_each([=](float& number) { number = value; });
}

/// Returns 0 if bit n of `zeros` is set, else `whole`.
constexpr Index extent(unsigned zeros, unsigned n, Index whole) {
  return (zeros >> n & 1) != 0 ? 0 : whole;
}

}  // namespace empty_case
