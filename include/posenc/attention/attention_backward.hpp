// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attend_backward.hpp>
#include <posenc/attention/gradients.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/concepts.hpp>
#include <posenc/simd/tier.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <type_traits>

POSENC_BEGIN

/// Backward of attention(): from the gradient of its output to those of q, k, v, the additive mask, the
/// sinks, and the parameters of the bias.
///   Shapes:   q [B, Sq, H, D], k [B, Sk, Hkv, D], v [B, Sk, Hkv, Dv], out and grad_out [B, Sq, H, Dv], lse
///             [B, H, Sq]; gradients as what they are of. Gradients of k and v are sums over the query heads that
///             share them
///   Options:  those of the call of attention() that gave out, and lse by its memory. Dropout drops the same
///             again; its seed is in the options
///   Bias:     the same again. With bias_gradient, which is what bias.zero_gradient() returns, the gradient of
///             its parameters is added to that; see LearnedScoreBias. That of a RelativeBias<T> is a
///             RelativeGradient<T>; what its products give to q and k is in the gradients of these
///   Device:   as attention(); threads share heads out, and, where there are fewer heads than threads,
///             blocks of their queries
///   Aliasing: gradients share no memory with each other, nor with what is read
///   Throws:   ShapeError, ConfigError, PositionError, std::bad_alloc, and what bias.zero_gradient() throws,
///             before anything is written; see attention() for what a thread throws
///   Masks:    rows that see no key, and keys that nobody sees, have gradients of 0. What is hidden, NaN
///             included, reaches no gradient; where a tile or a block holds NaN or infinity, a probability of 0
///             gives nothing, whatever it is multiplied with
///   Bits:     the same for any number of threads: a block of queries adds to keys, masks and parameters after
///             the block before it
///   Accuracy: arithmetic in Compute<T>, rounded once to T. Probabilities are exp(score - lse), off by |lse| u;
///             the sum over probabilities that softmax takes from their gradients is out . grad_out, so 16-bit
///             types carry the rounding of out in it
///   Cost:     five products where attention() has two, in blocks of 192 rows; tiles of keys that nobody sees
///             are not read. A thread keeps the scores of a block and a tile twice, and the gradients of the keys
///             and values of one head
///   Source:   arXiv 2205.14135, appendix B.4; the order of blocks from 2307.08691, section 3.1.2, with the
///             queries outside
template <Scalar T, class Bias = NoBias, class BiasGradient = NoGradient,
          Device D = detail::CallingThread>
void attention_backward(HeadsView<const std::type_identity_t<T>> q,
                        HeadsView<const std::type_identity_t<T>> k,
                        HeadsView<const std::type_identity_t<T>> v,
                        HeadsView<const std::type_identity_t<T>> out,
                        LseView<const Compute<std::type_identity_t<T>>> lse,
                        HeadsView<const std::type_identity_t<T>> grad_out,
                        const AttentionGradients<T>& gradients,
                        const AttentionOptions<std::type_identity_t<T>>& options,
                        const Bias& bias = {}, BiasGradient&& bias_gradient = {},
                        AttentionWorkspace* workspace = nullptr, const D& device = {}) {
  detail::attend_backward_to_tensors<tier::Best, D, T>(
      device, {q, k, v, out, lse, grad_out, gradients}, options, bias, bias_gradient, workspace);
}

POSENC_END
