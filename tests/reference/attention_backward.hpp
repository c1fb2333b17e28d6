// SPDX-License-Identifier: MIT
#pragma once

#include "attention.hpp"
#include "matrix.hpp"

#include <cstdint>

namespace reference {

/// Derivatives of sum(output * grad_output) of one head.
struct AttentionGradients {
  Matrix q, k, v;      ///< [Sq, D], [Sk, D], [Sk, Dv].
  Matrix bias, added;  ///< [Sq, Sk]: of each cell of the bias and of the additive mask.
  double sink = 0;

  AttentionGradients() = default;
  AttentionGradients(std::int64_t queries, std::int64_t keys, std::int64_t dim,
                     std::int64_t value_dim)
      : q(queries, dim),
        k(keys, dim),
        v(keys, value_dim),
        bias(queries, keys),
        added(queries, keys) {}
};

/// Derivatives, and the same sums over magnitudes of all terms, which rounding errors are relative
/// to.
struct AttentionBackward {
  AttentionGradients gradients, magnitudes;
};

/// Backward pass of attention(). With P the softmax, Z the factors of dropout, W = P Z and O = W V,
///     dV = W^T dO,  dP = Z (dO V^T),  dS = P (dP - sum over keys of P dP),
/// the sink as a key whose value is zero, and dS passed back through each step of the score.
/// Masked keys and values are never read, and their gradients are zero.
AttentionBackward attention_backward(const Matrix& q, const Matrix& k, const Matrix& v,
                                     const Matrix& grad_output, const AttentionRule& rule);

}  // namespace reference
