// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/refused_calls.hpp>
#include <posenc/core/detail/call_diagnostics.hpp>
#include <posenc/nn/multi_head_workspace.hpp>

#define POSENC_DETAIL_FORWARD_RULE                                                            \
  "posenc: MultiHeadAttention::forward takes (x, positions, out, options), "                  \
  "(x, query_positions, keys_from, values_from, key_positions, out, options), either with a " \
  "MultiHeadTape of the module's type after out, or "                                         \
  "(x, positions, cache, sequences, out, options), then memory and an Eigen device, or "      \
  "neither; tensors are EmbeddingsViews of the module's type (from bsd(tensor) and "          \
  "its like), out is not const, a cache stores the module's type, or 16 bits for float"

#define POSENC_DETAIL_BACKWARD_RULE                                                              \
  "posenc: MultiHeadAttention::backward takes (tape, grad_out, grad_x, gradients) or "           \
  "(tape, grad_out, grad_x, grad_keys_from, grad_values_from, gradients), then a workspace or "  \
  "nullptr and an Eigen device, or neither; tensors are EmbeddingsViews of the module's type "   \
  "(from bsd(tensor) or another adapter), gradients are what zero_gradients() of such a module " \
  "returns"

POSENC_BEGIN
namespace detail {

template <class T>
using DiagnosticModuleMemory = MultiHeadMemory<DiagnosticElement<T>>;

/// Diagnostic overloads for calls of MultiHeadAttention::forward() and backward() that match no
/// function. They take AnyArgument, so overload resolution prefers every function that matches. Their
/// static_assert states the rule.
template <class T>
struct ForwardDiagnostics {
  template <class X = void>
  void forward(AnyArgument, AnyArgument, AnyArgument, const DiagnosticOptions<T>& = {},
               const DiagnosticModuleMemory<T>& = {}, AnyArgument = 0) const {
    static_assert(dependent_false<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(AnyArgument, AnyArgument, AnyArgument, AnyArgument, const DiagnosticOptions<T>& = {},
               const DiagnosticModuleMemory<T>& = {}, AnyArgument = 0) const {
    static_assert(dependent_false<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument,
               const DiagnosticOptions<T>& = {}, const DiagnosticModuleMemory<T>& = {},
               AnyArgument = 0) const {
    static_assert(dependent_false<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument,
               const DiagnosticOptions<T>& = {}, const DiagnosticModuleMemory<T>& = {},
               AnyArgument = 0) const {
    static_assert(dependent_false<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument,
               AnyArgument, const DiagnosticOptions<T>& = {}, const DiagnosticModuleMemory<T>& = {},
               AnyArgument = 0) const {
    static_assert(dependent_false<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument,
               AnyArgument, AnyArgument, const DiagnosticOptions<T>& = {},
               const DiagnosticModuleMemory<T>& = {}, AnyArgument = 0) const {
    static_assert(dependent_false<X>, POSENC_DETAIL_FORWARD_RULE);
  }

  // Overloads for a call with any other argument in the place of memory. They cannot be merged with
  // those above: memory in braces needs an aggregate, which no other argument converts to.
  template <class X = void>
  void forward(AnyArgument, AnyArgument, AnyArgument, const DiagnosticOptions<T>&, AnyArgument,
               AnyArgument = 0) const {
    static_assert(dependent_false<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(AnyArgument, AnyArgument, AnyArgument, AnyArgument, const DiagnosticOptions<T>&,
               AnyArgument, AnyArgument = 0) const {
    static_assert(dependent_false<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument,
               const DiagnosticOptions<T>&, AnyArgument, AnyArgument = 0) const {
    static_assert(dependent_false<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument,
               const DiagnosticOptions<T>&, AnyArgument, AnyArgument = 0) const {
    static_assert(dependent_false<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument,
               AnyArgument, const DiagnosticOptions<T>&, AnyArgument, AnyArgument = 0) const {
    static_assert(dependent_false<X>, POSENC_DETAIL_FORWARD_RULE);
  }

  template <class X = void>
  void backward(AnyArgument, AnyArgument, AnyArgument, AnyArgument, AnyArgument = 0,
                AnyArgument = 0, AnyArgument = 0, AnyArgument = 0) const {
    static_assert(dependent_false<X>, POSENC_DETAIL_BACKWARD_RULE);
  }
};

}  // namespace detail
POSENC_END
