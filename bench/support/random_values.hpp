// SPDX-License-Identifier: MIT
#pragma once

#include "opaque.hpp"

#include <Eigen/Core>

#include <vector>

namespace bench {

/// Returns parameters in [low, high], the same in every run.
template <class Number>
std::vector<Number> random_values(Index count, Number low, Number high) {
  using Array = Eigen::Array<Number, Eigen::Dynamic, 1>;
  const Array share = (Array::Random(count) + 1) / 2;
  const Array values = low + (high - low) * share;
  return {values.begin(), values.end()};
}

}  // namespace bench
