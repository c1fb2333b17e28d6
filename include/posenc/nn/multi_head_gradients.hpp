// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/gradients.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/core/config.hpp>
#include <posenc/nn/linear_parameters.hpp>
#include <posenc/tensor/view.hpp>

#include <utility>
#include <vector>

POSENC_BEGIN

/// Gradients of what MultiHeadAttention learns, which its backward() adds to: zero_gradients() of the module
/// makes them, and zeros again for the next step.
///   ProjectionGradient, BiasGradient: what zero_gradient() of the projections and of the bias gives; of a
///   RelativeBias a RelativeGradient, whose views the user fills in
/// Of the last three, which belong to the encoding and to the call's options, only those are made that the
/// user gives room to.
template <class T, class ProjectionGradient = LinearParameters<T>, class BiasGradient = NoGradient>
struct MultiHeadGradients {
  /// One that was made by its default constructor is left out: of weights that are not trained.
  ProjectionGradient query_projection, key_projection, value_projection, output_projection;
  BiasGradient bias;
  std::vector<double> rotary = {};  ///< of frequencies: module.rotary().zero_frequency_gradient()
  std::vector<T> sinks = {};        ///< [heads], of options.sinks
  ScoresView<T> additive = {};      ///< of the shape of options.additive
};

namespace detail {

/// What zero_gradient() gives, or NoGradient of what does not learn.
template <class Part>
auto zero_gradient_of(const Part& part) {
  if constexpr (requires { part.zero_gradient(); }) {
    return part.zero_gradient();
  } else {
    return NoGradient();
  }
}
template <class T>
RelativeGradient<T> zero_gradient_of(const RelativeBias<T>&) {
  return {};  // views, which the user gives memory to
}
template <class Part>
using GradientOf = decltype(zero_gradient_of(std::declval<const Part&>()));

}  // namespace detail
POSENC_END
