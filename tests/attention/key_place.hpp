// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <Eigen/Core>

#include <cstddef>
#include <type_traits>

namespace attention_test {

/// Returns the index of channel d of the key in a lane, from the start of a panel of 32 lanes:
/// [D][32], and in bfloat16 [ceil(D / 2)][32][2], the odd channel of a pair first.
template <class S>
std::size_t place(posenc::Index lane, posenc::Index d) {
  if (std::is_same_v<S, Eigen::bfloat16>) {
    return static_cast<std::size_t>((d / 2 * 32 + lane) * 2 + (d % 2 == 0 ? 1 : 0));
  }
  return static_cast<std::size_t>(d * 32 + lane);
}

}  // namespace attention_test
