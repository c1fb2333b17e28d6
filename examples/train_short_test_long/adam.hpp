// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <span>
#include <vector>

namespace study {

using posenc::Index;

/// State of training: parameters and means of the optimiser.
struct TrainingState {
  Index step = 0;
  std::vector<float> parameters, mean, variance;
};

/// Returns the learning rate of a step. It rises over the first twentieth of the steps, then falls
/// to a tenth of `greatest` along a cosine.
double learning_rate(double greatest, Index step, Index steps);

/// Makes one step of Adam (arXiv 1412.6980, algorithm 1), beta 0.9 and 0.98, after clipping the
/// gradient to norm 1.
void adam(double rate, std::span<float> gradient, TrainingState& state);

}  // namespace study
