// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention_memory.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/detail/call_diagnostics.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <type_traits>

// Diagnostics for calls of attention() that match none of its forms.
POSENC_BEGIN
namespace detail {

/// True if queries of T can attend to keys and values of another type.
template <class K, class T>
concept AttendsAcrossTypes =
    Scalar<T> && Scalar<std::remove_const_t<K>> && !std::is_same_v<std::remove_const_t<K>, T> &&
    std::is_same_v<Compute<std::remove_const_t<K>>, Compute<T>>;

/// True if tensors of these element types can be passed together.
template <class Q, class K, class V, class T>
inline constexpr bool attends = [] {
  if constexpr (Scalar<T> && std::is_same_v<std::remove_const_t<Q>, T> &&
                std::is_same_v<std::remove_const_t<K>, std::remove_const_t<V>>) {
    return std::is_same_v<std::remove_const_t<K>, T> || AttendsAcrossTypes<K, T>;
  } else {
    return false;
  }
}();

/// Element type for options and memory in braces, if the call's type is ambiguous.
template <class T>
using DiagnosticElement =
    std::conditional_t<Scalar<std::remove_const_t<T>>, std::remove_const_t<T>, float>;
template <class T>
using DiagnosticOptions = AttentionOptions<DiagnosticElement<T>>;
template <class T>
using DiagnosticMemory = AttentionMemory<DiagnosticElement<T>>;

/// Parameter that accepts any bias, or braces.
struct DiagnosticBias : AnyArgument {
  using AnyArgument::AnyArgument;
  constexpr DiagnosticBias() noexcept : AnyArgument(0) {}
};

/// Parameter that accepts the gradients of attention_backward() in braces.
struct DiagnosticGradients {
  AnyArgument q = 0, k = 0, v = 0, additive = 0, sinks = 0;
};

POSENC_DETAIL_CALL_RULE(
    AttentionRule,
    "posenc: attention takes (q, k, v, out, options, bias, memory) or "
    "(q, cache, sequences, out, options, bias, memory), and an Eigen device last or none; "
    "tensors are HeadsViews (from bshd(tensor) or another adapter), sequences a span of "
    "posenc::Index");
POSENC_DETAIL_CALL_RULE(
    OptionsRule,
    "posenc::attention: after out come options, of which causal is required: {.causal = "
    "posenc::Causal::No}, then a bias, memory and an Eigen device, or none. If a field in braces "
    "is wrong, posenc::AttentionOptions<T>{...} around it makes the compiler name the field");

/// Parameter of a diagnostic overload that accepts tensors alone.
template <class Rule>
struct RefusedHeads {
  template <class T>
  constexpr RefusedHeads(const HeadsView<T>&) noexcept(Rule::template refuse<T>()) {}  // NOLINT
};

template <class Q, class K, class V, class T>
constexpr void diagnose_attention() {
  static_assert(!std::is_const_v<T>,
                "posenc::attention: out is written to, so it must not be const");
  static_assert(std::is_const_v<T> || attends<Q, K, V, T>,
                "posenc::attention: q, k, v and out must have elements of one type, or q and out "
                "of one and k and v of another, all float and 16-bit types");
}

}  // namespace detail

template <class Q, class K, class V, class T, class Bias = NoBias, Device D = detail::CallingThread>
requires(!detail::attends<Q, K, V, T>) void attention(HeadsView<Q>, HeadsView<K>, HeadsView<V>,
                                                      HeadsView<T>,
                                                      const detail::DiagnosticOptions<T>& = {},
                                                      const Bias& = {},
                                                      const detail::DiagnosticMemory<T>& = {},
                                                      const D& = {}) {
  detail::diagnose_attention<Q, K, V, T>();
}

// Options of another element type.
template <class Q, class K, class V, class T, class O, class... Rest>
requires(detail::attends<Q, K, V, T> &&
         !std::is_same_v<O, T>) void attention(HeadsView<Q>, HeadsView<K>, HeadsView<V>,
                                               HeadsView<T>, const AttentionOptions<O>&,
                                               const Rest&...) {
  static_assert(detail::dependent_false<Q>,
                "posenc::attention: options must be AttentionOptions of the element type of q and "
                "out");
}

// Tensors that match, followed by arguments that do not, or by none.
template <class...>
void attention(detail::RefusedHeads<detail::OptionsRule>, detail::RefusedHeads<detail::OptionsRule>,
               detail::RefusedHeads<detail::OptionsRule>, detail::RefusedHeads<detail::OptionsRule>,
               ...);
template <class...>
void attention(detail::RefusedCall<detail::AttentionRule>, ...);

POSENC_END
