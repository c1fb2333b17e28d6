// SPDX-License-Identifier: MIT
#pragma once

#include "model.hpp"
#include <posenc/frequency/frequencies.hpp>

#include <functional>
#include <string>
#include <vector>

namespace study {

/// A rule that rescales RoPE's frequencies for texts longer than those of training.
struct Scaling {
  std::string name;
  /// For texts of `length` where frequencies are stretched by `factor`; dynamic NTK takes its own from the length.
  std::function<posenc::Frequencies(const Shape&, double factor, Index length)> frequencies;
};

const std::vector<Scaling>& scalings();

}  // namespace study
