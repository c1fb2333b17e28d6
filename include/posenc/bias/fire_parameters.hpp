// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/simd/detail/add_values.hpp>

#include <vector>

POSENC_BEGIN

/// Parameters that FIRE learns. Their gradient has the same shape. Names in brackets are those of
/// the paper's code.
struct FireParameters {
  double c = 0;                            ///< required: |c|
  double threshold = 0;                    ///< required: L = |L_multiplier * init_L|
  std::vector<double> hidden_weight = {};  ///< required: [width] (mlp.0.weight)
  std::vector<double> hidden_bias = {};    ///< required: [width] (mlp.0.bias)
  std::vector<double> output_weight = {};  ///< required: [H, width], row by row (mlp.2.weight)
  std::vector<double> output_bias = {};    ///< required: [H] (mlp.2.bias)

  /// Adds the gradient of other scores, or an update step.
  ///   Throws: ShapeError
  FireParameters& operator+=(const FireParameters& other) {
    if (other.hidden_weight.size() != hidden_weight.size() ||
        other.hidden_bias.size() != hidden_bias.size() ||
        other.output_weight.size() != output_weight.size() ||
        other.output_bias.size() != output_bias.size()) {
      detail::fail<ShapeError>("FireParameters",
                               "the parameters to add must have the same shape, width ",
                               hidden_bias.size(), " and ", output_bias.size(), " heads, but has ",
                               other.hidden_bias.size(), " and ", other.output_bias.size());
    }
    const auto add = [](const std::vector<double>& values, std::vector<double>& sums) {
      detail::add_values(values.data(), sums.data(), static_cast<Index>(sums.size()));
    };
    c += other.c;
    threshold += other.threshold;
    add(other.hidden_weight, hidden_weight);
    add(other.hidden_bias, hidden_bias);
    add(other.output_weight, output_weight);
    add(other.output_bias, output_bias);
    return *this;
  }
};

POSENC_END
