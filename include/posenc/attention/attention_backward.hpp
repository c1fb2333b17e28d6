// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attend_backward.hpp>
#include <posenc/attention/detail/refused_calls.hpp>
#include <posenc/attention/gradients.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/attention/workspace.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/detail/call_diagnostics.hpp>
#include <posenc/simd/tier.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <type_traits>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_CALL_RULE(
    AttentionBackwardRule,
    "posenc: attention_backward takes (q, k, v, out, lse, grad_out, gradients, options, bias, "
    "bias_gradient, workspace), the last three optional, then an Eigen device or none; q, k, v, "
    "out "
    "and grad_out are HeadsViews of one type, lse an LseView, gradients AttentionGradients. If a "
    "field in braces is wrong, posenc::AttentionOptions<T>{...} around it makes the compiler name "
    "the field");

}  // namespace detail

/// Computes the backward pass of attention(): the gradients of q, k, v, the additive mask, the
/// sinks, and the parameters of the bias, from the gradient of the output.
///   Shapes:   q [B, Sq, H, D], k [B, Sk, Hkv, D], v [B, Sk, Hkv, Dv], out and grad_out [B, Sq, H,
///             Dv], lse [B, H, Sq]. Each gradient has the shape of its tensor. Gradients of k and v
///             are sums over the query heads that share a KV head
///   Options:  must be those of the call of attention() that wrote out, and lse by its memory.
///             Dropout drops the same probabilities, because its seed is in the options
///   Bias:     must be that of the call as well. With bias_gradient, as bias.zero_gradient()
///             returns it, the gradient of its parameters is added to bias_gradient; see
///             LearnedScoreBias. The gradients of q and k include those of a QueryBias. The
///             gradient of a RelativeBias<T> is a RelativeGradient<T>
///   Device:   as for attention(); heads are distributed over threads, and, if there are fewer
///             heads than threads, blocks of their queries as well
///   Aliasing: gradients must not overlap each other or any input
///   Throws:   ShapeError, ConfigError, PositionError, std::bad_alloc, and exceptions of
///             bias.zero_gradient(), before anything is written. For exceptions on threads of a
///             pool see attention()
///   Masks:    rows without visible keys, and keys that no query sees, have gradients of 0. Masked
///             keys reach no gradient, even if they hold NaN. A probability of 0 contributes
///             nothing, whatever its factor: NaN, infinity, or an overflow
///   Bits:     do not depend on the number of threads: blocks of queries add to keys, masks and
///             parameters in block order
///   Accuracy: arithmetic in Compute<T>, rounded once to T. Probabilities are exp(score - lse), off
///             by |lse| u. The sum over probabilities that softmax subtracts from their gradients
///             is out . grad_out, so for 16-bit types it includes the rounding of out
///   Cost:     five products, where attention() has two, in blocks of 192 rows; tiles of keys that
///             no query sees are not read. A thread keeps two copies of the scores of a block and a
///             tile, and the gradients of the keys and values of one head
///   Source:   arXiv 2205.14135, appendix B.4; the order of blocks from 2307.08691, section 3.1.2,
///             with queries as the outer loop
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
  detail::attend_backward_to_tensors<tier::Best, D, T>(device,
                                                       {.q = q,
                                                        .k = k,
                                                        .v = v,
                                                        .out = out,
                                                        .lse = lse,
                                                        .grad_out = grad_out,
                                                        .gradients = gradients},
                                                       options, bias, bias_gradient, workspace);
}

// Diagnostic overload for keys and values of another type than the queries'.
template <class T, class Q, class K, class V, class O, class Lse, class G>
requires detail::AttendsAcrossTypes<K, T>
void attention_backward(HeadsView<Q>, HeadsView<K>, HeadsView<V>, HeadsView<O>, LseView<Lse>,
                        HeadsView<G>, const AttentionGradients<T>&,
                        const detail::DiagnosticOptions<T>&, detail::DiagnosticBias = {},
                        detail::DiagnosticBias = {}, AttentionWorkspace* = nullptr,
                        detail::AnyArgument = 0) {
  static_assert(detail::dependent_false<Q>,
                "posenc::attention_backward: q, k, v and out must have elements of one type; keys "
                "and values of another type have no backward pass");
}

// Diagnostic overload for gradients in braces. Its template parameter is not a type, which excludes
// it from calls of attention_backward<T>().
template <int Zero = 0>
void attention_backward(detail::AnyArgument, detail::AnyArgument, detail::AnyArgument,
                        detail::AnyArgument, detail::AnyArgument, detail::AnyArgument,
                        const detail::DiagnosticGradients&, const detail::DiagnosticOptions<float>&,
                        detail::DiagnosticBias = {}, detail::DiagnosticBias = {},
                        AttentionWorkspace* = nullptr, detail::AnyArgument = 0) {
  static_assert(detail::dependent_false<std::integral_constant<int, Zero>>,
                "posenc::attention_backward: gradients in braces do not define the element type: "
                "write attention_backward<T>(...), or pass an AttentionGradients<T>");
}

/// Overload of attention_backward() that reports a wrong call.
template <class...>
void attention_backward(detail::RefusedCall<detail::AttentionBackwardRule>, ...);

POSENC_END
