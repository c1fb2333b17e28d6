// SPDX-License-Identifier: MIT
#pragma once

#include "model.hpp"
#include <posenc/frequency/frequencies.hpp>

#include <functional>
#include <string>
#include <vector>

namespace study {

/// Rule that rescales RoPE's frequencies for texts longer than those of training.
struct Scaling {
  std::string name;
  /// Frequencies for texts of `length`, stretched by `factor`; dynamic NTK computes its own factor
  /// from the length.
  std::function<posenc::Frequencies(const Shape&, double factor, Index length)> frequencies;
};

const std::vector<Scaling>& scalings();

}  // namespace study
