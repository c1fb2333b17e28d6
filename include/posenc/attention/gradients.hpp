// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <span>

POSENC_BEGIN

/// Where attention_backward() puts gradients. Those of tensors are written; those of parameters, which other
/// calls share, are added to. What has no data is left out.
template <Scalar T>
struct AttentionGradients {
  HeadsView<T> q = {};  ///< [B, Sq, H, D]
  HeadsView<T> k = {};  ///< [B, Sk, Hkv, D]
  HeadsView<T> v = {};  ///< [B, Sk, Hkv, Dv]
  ScoresView<Compute<T>> additive =
      {};                            ///< as options.additive; summed over axes that are broadcast
  std::span<Compute<T>> sinks = {};  ///< [H]
};

/// Where attention_backward() puts the gradients of a RelativeBias<T>. Those of tables are added to, those of
/// queries of its own written. What has no data is left out.
template <Scalar T>
struct RelativeGradient {
  HeadsView<Compute<T>> table = {};      ///< [1, R, H or 1, W], as the table
  HeadsView<Compute<T>> key_table = {};  ///< [1, R, H or 1, D], as the table of keys
  HeadsView<T> queries = {};             ///< [B, Sq, H, W]
};

/// In the place of the gradient of a bias that has no parameters, or whose parameters are not learned.
struct NoGradient {};

POSENC_END
