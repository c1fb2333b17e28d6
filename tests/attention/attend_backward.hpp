// SPDX-License-Identifier: MIT
#pragma once

#include "learned_bias.hpp"
#include "support/devices.hpp"
#include <posenc/attention/gradients.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

namespace attention_test {

/// Tensors that a call of attention() and one of attention_backward() read and write.
template <class T>
struct BackwardTensors {
  posenc::HeadsView<const T> q, k, v;
  posenc::HeadsView<T> out;
  posenc::LseView<posenc::Compute<T>> lse;
  posenc::HeadsView<const T> grad_out;
  posenc::AttentionGradients<T> gradients;
};

/// Bias and its gradient; both may be null.
struct LearnedBiasCall {
  const LearnedBias::Any* bias = nullptr;
  LearnedBiasGradient* gradient = nullptr;
};

/// Calls attention() and then attention_backward(); compiled in attend_backward.cpp for every
/// element type.
template <posenc::Scalar T>
void attend_and_back(const support::AnyDevice& device, const BackwardTensors<T>& x,
                     const posenc::AttentionOptions<T>& options, const LearnedBiasCall& bias = {});

}  // namespace attention_test
