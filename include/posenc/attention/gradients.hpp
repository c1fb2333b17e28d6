// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <span>

POSENC_BEGIN

/// Output views of attention_backward(). Gradients of tensors are overwritten. Gradients of
/// parameters (additive mask, sinks) are accumulated, because calls share parameters. A view
/// without data is not computed.
template <Scalar T>
struct AttentionGradients {
  HeadsView<T> q = {};                   ///< [B, Sq, H, D]
  HeadsView<T> k = {};                   ///< [B, Sk, Hkv, D]
  HeadsView<T> v = {};                   ///< [B, Sk, Hkv, Dv]
  ScoresView<Compute<T>> additive = {};  ///< shape of options.additive; summed over broadcast axes
  std::span<Compute<T>> sinks = {};      ///< [H]
};

/// Output views of attention_backward() for a RelativeBias<T>. Gradients of tables are accumulated;
/// the gradient of RelativeBias::queries is overwritten. A view without data is not computed.
template <Scalar T>
struct RelativeGradient {
  HeadsView<Compute<T>> table = {};      ///< [1, R, H or 1, W], as the table
  HeadsView<Compute<T>> key_table = {};  ///< [1, R, H or 1, D], as the table of keys
  HeadsView<T> queries = {};             ///< [B, Sq, H, W]
};

/// Empty gradient of a bias without parameters, or with parameters that are not learned.
struct NoGradient {};

POSENC_END
