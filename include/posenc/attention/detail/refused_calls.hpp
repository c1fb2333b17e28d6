// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/options.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/detail/refusal.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <type_traits>

// Calls of attention() that fit none of its forms, answered in words; and of MultiHeadAttention::forward().
POSENC_BEGIN
namespace detail {

/// Whether tensors of these elements go together.
template <class Q, class K, class V, class T>
inline constexpr bool attends = Scalar<T>&& std::is_same_v<std::remove_const_t<Q>, T>&&
    std::is_same_v<std::remove_const_t<K>, T>&& std::is_same_v<std::remove_const_t<V>, T>;

/// Options, written in braces, of a call whose type is in doubt.
template <class T>
using SomeOptions = AttentionOptions<
    std::conditional_t<Scalar<std::remove_const_t<T>>, std::remove_const_t<T>, float>>;

template <class Q, class K, class V, class T>
constexpr void refuse_attention() {
  static_assert(!std::is_const_v<T>,
                "posenc::attention: out is written to, so it must not be const");
  static_assert(std::is_const_v<T> || attends<Q, K, V, T>,
                "posenc::attention: q, k, v and out must have elements of one type");
}

}  // namespace detail

template <class Q, class K, class V, class T, class Bias = NoBias>
requires(!detail::attends<Q, K, V, T>) void attention(HeadsView<Q>, HeadsView<K>, HeadsView<V>,
                                                      HeadsView<T>,
                                                      const detail::SomeOptions<T>& = {},
                                                      const Bias& = {}) {
  detail::refuse_attention<Q, K, V, T>();
}
template <Device D, class Q, class K, class V, class T, class Bias = NoBias>
requires(!detail::attends<Q, K, V, T>) void attention(const D&, HeadsView<Q>, HeadsView<K>,
                                                      HeadsView<V>, HeadsView<T>,
                                                      const detail::SomeOptions<T>& = {},
                                                      const Bias& = {}) {
  detail::refuse_attention<Q, K, V, T>();
}

#define POSENC_DETAIL_ATTENTION_RULE                                                          \
  "posenc: attention takes (q, k, v, out, options, bias) or "                                 \
  "(q, cache, sequences, out, options, bias), with an Eigen device before them or without; "  \
  "tensors are HeadsViews of one type (from bshd(tensor) and its like), sequences a span of " \
  "posenc::Index"

template <class T = void>
void attention(detail::Anything, detail::Anything, detail::Anything, detail::Anything,
               const detail::SomeOptions<T>& = {}, detail::Anything = 0) {
  static_assert(detail::never<T>, POSENC_DETAIL_ATTENTION_RULE);
}
template <class T = void>
void attention(detail::Anything, detail::Anything, detail::Anything, detail::Anything,
               detail::Anything, const detail::SomeOptions<T>& = {}, detail::Anything = 0) {
  static_assert(detail::never<T>, POSENC_DETAIL_ATTENTION_RULE);
}

#define POSENC_DETAIL_FORWARD_RULE                                                              \
  "posenc: MultiHeadAttention::forward takes (x, positions, out, options), "                    \
  "(x, query_positions, keys_from, values_from, key_positions, out, options), either with a "   \
  "MultiHeadTape of the module's type after out, or "                                           \
  "(x, positions, cache, sequences, out, options), with an Eigen device before them or "        \
  "without; tensors are EmbeddingsViews of the module's type (from bsd(tensor) and its like), " \
  "out is not const, a cache stores the module's type, or 16 bits for float"

#define POSENC_DETAIL_BACKWARD_RULE                                                              \
  "posenc: MultiHeadAttention::backward takes (tape, grad_out, grad_x, gradients) or (tape, "    \
  "grad_out, grad_x, "                                                                           \
  "grad_keys_from, grad_values_from, gradients), with an Eigen device before them or without; "  \
  "tensors are EmbeddingsViews of the module's type (from bsd(tensor) and its like), gradients " \
  "are what "                                                                                    \
  "zero_gradients() of such a module returns"

namespace detail {

/// The same for MultiHeadAttention::forward() and backward().
template <class T>
struct RefusedForward {
  template <class X = void>
  void forward(Anything, Anything, Anything, const SomeOptions<T>& = {}, Anything = 0) const {
    static_assert(never<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(Anything, Anything, Anything, Anything, const SomeOptions<T>& = {},
               Anything = 0) const {
    static_assert(never<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(Anything, Anything, Anything, Anything, Anything, const SomeOptions<T>& = {},
               Anything = 0) const {
    static_assert(never<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(Anything, Anything, Anything, Anything, Anything, Anything,
               const SomeOptions<T>& = {}, Anything = 0) const {
    static_assert(never<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(Anything, Anything, Anything, Anything, Anything, Anything, Anything,
               const SomeOptions<T>& = {}, Anything = 0) const {
    static_assert(never<X>, POSENC_DETAIL_FORWARD_RULE);
  }
  template <class X = void>
  void forward(Anything, Anything, Anything, Anything, Anything, Anything, Anything, Anything,
               const SomeOptions<T>& = {}, Anything = 0) const {
    static_assert(never<X>, POSENC_DETAIL_FORWARD_RULE);
  }

  template <class X = void>
  void backward(Anything, Anything, Anything, Anything, Anything = 0, Anything = 0, Anything = 0,
                Anything = 0) const {
    static_assert(never<X>, POSENC_DETAIL_BACKWARD_RULE);
  }
};

}  // namespace detail
POSENC_END
