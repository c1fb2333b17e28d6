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

// The stages behind attention(), and their terms, are described in README.md of this folder. In
// short (files are in detail/, except for those of the cache in kv/, and for softmax.hpp,
// products.hpp, panel.hpp and tile.hpp in kernels/):
//
//   attention_geometry.hpp  range of keys that are visible to a query; masks.hpp: masks inside it
//   tensor_kv_source.hpp, cached_attention.hpp   sources of tiles: 128 keys and values (tile.hpp)
//   query_block.hpp         a block of rows that share a KV head, and the keys visible to them
//   scores.hpp              scores of a strip of rows: scale, temperature, soft cap, bias, masks
//   softmax.hpp             scores -> exponentials, dropout, sums; merging of tiles
//   forward_worker.hpp      both products, by products.hpp over panel.hpp, tile by tile
//   output_writer.hpp       sums -> outputs, log-sum-exps; returned_scores_writer.hpp: weights
//   forward_schedule.hpp    order of blocks, and their distribution over threads
//
//   row    one query of one head              lane   index of a key in a panel
//   group  query heads that share a KV head   panel  32 lanes, stored channel by channel
//   strip  rows of one kernel call            tile   128 keys, starting at a multiple of 128
//   block  rows that share packed tiles       arena  memory of one thread in the workspace
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
///   Accuracy: arithmetic in Compute<T>, rounded once to T; |v| times the number of keys must not
///             exceed the largest value of Compute<T>. A score before scaling is off by at most D
///             roundings of sum |q k|. With POSENC_BFLOAT16_PRODUCTS it is off by 2^-126 sum (1 +
///             |q| + |k|) more in bfloat16, because these products flush values below 2^-126 to
///             zero; otherwise they give the same bits. Probabilities::RoundedToBfloat16 moves an
///             output by at most 2^-8 sum p |v| more, plus 2^-126 (1 + p) per key
///   Cost:     O(B H Sq Sk (D + Dv)); memory independent of Sq and Sk unless memory.weights is
///             given
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

/// Overload for keys and values of another type S than the queries' and outputs', such as float
/// queries over the caller's own buffers of bfloat16 or half. They are read where they are and
/// converted tile by tile. There is no backward pass: gradients of keys in 16 bits would be rounded
/// at every step.
///   Types:    S and T both of float and 16-bit types
///   Bits:     those of the call with keys and values converted to Compute<T>, if T is that type.
///             Over a KvCache<S> that holds the same keys they are the same
///   Accuracy: arithmetic in Compute<T>; keys and values are exact, the output is rounded once to T
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
