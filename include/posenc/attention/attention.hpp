// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention_memory.hpp>
#include <posenc/attention/detail/attend.hpp>
#include <posenc/attention/detail/refused_calls.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/concepts.hpp>
#include <posenc/simd/tier.hpp>
#include <posenc/tensor/detail/erased_device.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <type_traits>

// README.md of this folder describes the stages behind attention(), and ../glossary.md their terms.
POSENC_BEGIN

/// Computes scaled dot-product attention: out = softmax(scale * q k^T + bias + masks) v.
///   Shapes:   q [B, Sq, H, D], k [B, Sk, Hkv, D], v [B, Sk, Hkv, Dv], out [B, Sq, H, Dv]. Hkv
///             divides H, and query head h uses KV head h / (H / Hkv). Any extent may be 0
///   Memory:   views that receive log-sum-exps and scores, and a workspace; all are optional
///   Device:   Eigen::DefaultDevice or ThreadPoolDevice, over which heads and blocks of queries are
///             distributed, or tiles of keys if there are few blocks. If omitted, the calling
///             thread
///   Aliasing: out must not overlap k, v and the masks; it may be q
///   Throws:   ShapeError, ConfigError, PositionError, std::bad_alloc, before anything is written.
///             Exceptions on threads of a pool end the program, because Eigen's pool does not pass
///             them on: std::bad_alloc for the pool's own tasks, or an exception of a user-supplied
///             bias
///   Order:    scale -> softcap -> bias (or bias -> softcap) -> masks -> softmax -> dropout; a
///             temperature multiplies at the stage that temperature_of names
///   Masks:    a query without visible keys gets zeros, and a log-sum-exp of -inf or of its sink.
///             Masked keys never reach the output, even if they hold NaN. A final score of -inf
///             masks its key. Tiles of keys that no query sees are not read
///   Bits:     a query's result depends only on the query and its visible keys, counted from key 0:
///             not on other queries, masked keys, threads, or the number of queries per call
///   Accuracy: arithmetic is in Compute<T>, and a result is rounded once to T. A score before
///             scaling has an error of at most D roundings of sum |q k|. |v| times the number of
///             keys must not exceed the largest value of Compute<T>. Two settings for bfloat16 add
///             errors. POSENC_BFLOAT16_PRODUCTS flushes values below 2^-126 to zero, which adds at
///             most 2^-126 sum (1 + |q| + |k|) to a score; otherwise it changes no bit.
///             Probabilities::RoundedToBfloat16 adds at most 2^-8 sum p |v| to an output, and
///             2^-126 (1 + p) per key
///   Cost:     O(B H Sq Sk (D + Dv)). Memory is independent of Sq and Sk, unless memory.weights
///             receives the scores
///   Source:   arXiv 1706.03762, equation 1; online softmax 1805.02867, tiles 2205.14135
template <Scalar T, class Bias = NoBias, Device D = detail::CallingThread>
void attention(HeadsView<const std::type_identity_t<T>> q,
               HeadsView<const std::type_identity_t<T>> k,
               HeadsView<const std::type_identity_t<T>> v, HeadsView<T> out,
               const AttentionOptions<std::type_identity_t<T>>& options, const Bias& bias = {},
               const AttentionMemory<std::type_identity_t<T>>& memory = {}, const D& device = {}) {
  detail::attend_to_tensors<tier::Best, T, T>(detail::ErasedDevice(device), q, k, v, out, options,
                                              detail::bias_for_tensors<tier::Best, T>(bias), memory,
                                              {});
}

/// Overload for keys and values of another element type S than that of queries and outputs. For
/// example, queries are float, and keys and values are bfloat16 in memory of the caller. It
/// converts them a tile at a time, without a copy of the tensors. It has no backward pass, which
/// would round gradients of 16-bit keys at every step.
///   Types:    S and T are both of float and 16-bit types
///   Bits:     if T is Compute<T>, the same as after a conversion of all keys and values to T. The
///             same as over a KvCache<S> with these keys
///   Accuracy: arithmetic is in Compute<T>. Keys and values are exact, and an output is rounded
///             once to T
template <Scalar T, class S, class Bias = NoBias, Device D = detail::CallingThread>
requires detail::AttendsAcrossTypes<S, T>
void attention(HeadsView<const std::type_identity_t<T>> q, HeadsView<S> k,
               HeadsView<const std::remove_const_t<S>> v, HeadsView<T> out,
               const AttentionOptions<std::type_identity_t<T>>& options, const Bias& bias = {},
               const AttentionMemory<std::type_identity_t<T>>& memory = {}, const D& device = {}) {
  using Key = std::remove_const_t<S>;
  detail::attend_to_tensors<tier::Best, T, Key>(detail::ErasedDevice(device), q, k, v, out, options,
                                                detail::bias_for_tensors<tier::Best, T, Key>(bias),
                                                memory, {});
}

POSENC_END
