// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/call_diagnostics.hpp>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_CALL_RULE(
    ForwardRule,
    "posenc: MultiHeadAttention::forward takes (x, positions, out, options), "
    "(x, query_positions, keys_from, values_from, key_positions, out, options), either with a "
    "MultiHeadTape of the module's type after out, or "
    "(x, positions, cache, sequences, out, options), then memory and an Eigen device, or "
    "neither; tensors are EmbeddingsViews of the module's type (from bsd(tensor) and "
    "its like), out is not const, a cache stores the module's type, or 16 bits for float. Of the "
    "options causal is required. If a field in braces is wrong, posenc::AttentionOptions<T>{...} "
    "around it makes the compiler name the field");
POSENC_DETAIL_CALL_RULE(
    BackwardRule,
    "posenc: MultiHeadAttention::backward takes (tape, grad_out, grad_x, gradients) or "
    "(tape, grad_out, grad_x, grad_keys_from, grad_values_from, gradients), then a workspace or "
    "nullptr and an Eigen device, or neither; tensors are EmbeddingsViews of the module's type "
    "(from bsd(tensor) or another adapter), gradients are what zero_gradients() of such a module "
    "returns");

/// Diagnostic overloads for calls of MultiHeadAttention::forward() and backward() that match no
/// function.
struct ModuleDiagnostics {
  template <class...>
  void forward(RefusedCall<ForwardRule>, ...) const;
  template <class...>
  void backward(RefusedCall<BackwardRule>, ...) const;
};

}  // namespace detail
POSENC_END
