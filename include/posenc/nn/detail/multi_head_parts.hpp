// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/detail/call_diagnostics.hpp>
#include <posenc/core/error.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/nn/multi_head_config.hpp>
#include <posenc/tensor/detail/check_positions.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/view.hpp>

// Types, checks and diagnostics shared by the forward and backward pass of MultiHeadAttention.
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

/// Returns a rotary encoding for heads of head_dim channels. An encoding without rotary_dim() and
/// rotary_offset() is checked when it rotates.
///   Throws: ConfigError if its channels are not within a head
template <class Rotary>
Rotary checked_rotary(const char* function, Rotary rotary, Index head_dim) {
  if constexpr (requires { rotary.rotary_offset() + rotary.rotary_dim() > head_dim; }) {
    const Index first = rotary.rotary_offset(), end = first + rotary.rotary_dim();
    if (end > head_dim) {
      fail<ConfigError>(function, "head_dim (", head_dim, ") must include the rotary channels [",
                        first, ", ", end, ")");
    }
  }
  return rotary;
}

/// Inputs that queries, keys and values are projected from.
template <class T>
struct ModuleInputs {
  EmbeddingsView<const T> x, keys_from, values_from;
};

/// Queries, keys, values and mixed values of the heads, or their gradients; dense.
template <class T>
struct ModuleHeads {
  HeadsView<T> q, k, v, mixed;
};

/// Outputs of the projections of queries and keys.
template <class T>
struct ProjectedHeads {
  HeadsView<T> q, k;
};

/// Returns the token view of heads: the heads of a token are contiguous, as projections read them.
template <class T>
EmbeddingsView<T> tokens(const HeadsView<T>& x) noexcept {
  return {x.data, x.batch, x.seq, x.heads * x.dim};
}

/// Allocates the heads of a call with these inputs.
///   Throws: ShapeError, in the name of `function`
template <class T>
ModuleHeads<T> allocate_heads(const char* function, ArenaAllocator& allocator,
                              const MultiHeadAttentionConfig& config,
                              const ModuleInputs<T>& inputs) {
  const auto allocate = [&](const EmbeddingsView<const T>& from, Index heads, Index dim) {
    const auto count = checked_mul({from.batch, from.seq, heads * dim});
    if (!count) {
      fail<ShapeError>(function, heads * dim, " values for each token of [", from.batch, ", ",
                       from.seq, "] exceed 2^63 - 1");
    }
    return HeadsView<T>{allocator.template allocate<T>(*count), from.batch, from.seq, heads, dim};
  };
  // Braces evaluate in this order, the order of the fields.
  return {allocate(inputs.x, config.heads, config.head_dim),
          allocate(inputs.keys_from, config.kv_heads, config.head_dim),
          allocate(inputs.values_from, config.kv_heads, config.value_dim),
          allocate(inputs.x, config.heads, config.value_dim)};
}

/// Throws ShapeError unless a tensor of a call has the given extents.
template <class View, class Extents>
void check_shape(const char* function, const char* name, const View& x, const Extents& extents) {
  check_extents(function, name, x);
  if (x.extents() != extents) {
    fail<ShapeError>(function, name, " ", x.extents(), " must be ", extents);
  }
}

template <class T>
void check_positions_fit(const char* function, const char* name, const Positions& positions,
                         const EmbeddingsView<const T>& x) {
  if (!positions_fit(positions, x.batch, x.seq)) {
    fail<ShapeError>(function, name, " [", positions.batch(), ", ", positions.count(),
                     "] must be [1 or ", x.batch, ", ", x.seq, "]");
  }
}

}  // namespace detail
POSENC_END
