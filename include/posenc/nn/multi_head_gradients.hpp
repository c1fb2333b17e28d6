// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/gradients.hpp>
#include <posenc/core/config.hpp>
#include <posenc/nn/linear_parameters.hpp>
#include <posenc/nn/parameter_matrix.hpp>
#include <posenc/tensor/view.hpp>

#include <vector>

POSENC_BEGIN

/// Gradients of the parameters of MultiHeadAttention. backward() adds to them. zero_gradients() of
/// the module constructs them; call it again for the next training step. A default-constructed
/// gradient of a projection is not computed, for weights that are not trained.
/// The last three members belong to the rotary encoding and to the options of a call. They are
/// computed only if the user allocates them.
///   Types: ProjectionGradient and BiasGradient are those that zero_gradient() of the projections
///          and of the bias returns. That of a RelativeBias has views, which the user sets
template <class T, class ProjectionGradient = LinearParameters<T>, class BiasGradient = NoGradient>
struct MultiHeadGradients {
  ProjectionGradient query_projection,  ///< of the query projection
      key_projection,                   ///< of the key projection
      value_projection,                 ///< of the value projection
      output_projection;                ///< of the output projection
  BiasGradient bias;                    ///< of the parameters of the score bias
  /// Gradient of the weights of the queries' norm. An empty one is not computed.
  ParameterMatrix<T> query_norm = {};
  /// Gradient of the weights of the keys' norm. An empty one is not computed.
  ParameterMatrix<T> key_norm = {};
  std::vector<double> rotary = {};  ///< of frequencies: module.rotary().zero_frequency_gradient()
  std::vector<T> sinks = {};        ///< [heads], gradient of options.sinks
  ScoresView<T> additive = {};      ///< gradient of options.additive, same shape
};

POSENC_END
