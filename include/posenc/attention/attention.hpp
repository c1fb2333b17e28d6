// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/attention_memory.hpp>
#include <posenc/attention/detail/attend.hpp>
#include <posenc/attention/detail/refused_calls.hpp>
#include <posenc/attention/options.hpp>
#include <posenc/concepts.hpp>
#include <posenc/simd/tier.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <type_traits>

// What a user calls. How it is done, and the words for it, are in README.md beside this file; in short,
// in detail/ but for the cache, and softmax.hpp and products.hpp, which are in kernels/:
//
//   places.hpp, masks.hpp   which keys a query sees: a range, and within it one by one
//   tensor_source.hpp, cached_attention.hpp   who hands out tiles: tile.hpp, 128 keys and their values
//   row_block.hpp           a block of rows, which share a key head, and what they see of a tile
//   scores.hpp              a strip of rows, a tile -> scores: scale, temperature, soft cap, bias, masks
//   softmax.hpp             scores -> exponentials, dropout, sums; sums of tiles merged
//   packed_tiles.hpp        the products of both, strip by strip, by products.hpp over panel.hpp
//   unpacked_tiles.hpp      the same of few queries, with tensors as they lie
//   outputs.hpp             sums -> outputs, log-sum-exps, returned weights (returned_scores.hpp)
//   schedule.hpp            blocks and tiles, in order, on threads
//
//   row    one query of one head              lane   a key's place in a panel
//   group  query heads that share a key head  panel  32 lanes, channels one after the other
//   strip  rows that a kernel takes at once   tile   128 keys, from a multiple of 128 on
//   block  rows that go through together      slot   a thread's memory in the workspace
POSENC_BEGIN

/// Scaled dot-product attention: out = softmax(scale * q k^T + bias + masks) v.
///   Shapes:   q [B, Sq, H, D], k [B, Sk, Hkv, D], v [B, Sk, Hkv, Dv], out [B, Sq, H, Dv]; Hkv
///             divides H, and query head h uses key head h / (H / Hkv). Any of them may be empty.
///   Memory:   where log-sum-exps and scores are returned, if anywhere, and a workspace, if any
///   Device:   Eigen::DefaultDevice or ThreadPoolDevice, which takes heads and blocks of queries, or
///             tiles of keys where there are few of those; without one the calling thread
///   Aliasing: out shares no memory with k, v and the masks; it may be q
///   Throws:   ShapeError, ConfigError, PositionError, std::bad_alloc, before anything is written. A
///             pool that finds no memory for its own tasks, or a user's bias that throws in one, ends
///             the program, since Eigen's pool lets no exception out of its threads
///   Order:    scale -> softcap -> bias (or bias -> softcap) -> masks -> softmax -> dropout; a temperature
///             multiplies where temperature_of says
///   Masks:    a query that sees no key gives zeros and a log-sum-exp of -inf, or its sink; what a hidden key
///             holds, NaN included, never reaches the output. A score that is -inf in the end hides its
///             key as a mask does. Tiles of keys that nobody sees are not read
///   Bits:     a query's result depends on itself and on the keys that it sees, counted from key 0:
///             not on other queries, hidden keys, threads, or how many queries come in one call
///   Accuracy: arithmetic in Compute<T>, rounded once to T; |v| times the number of keys must not
///             exceed the largest of it. A score before scaling is off by at most D roundings of
///             sum |q k|; with POSENC_BFLOAT16_PRODUCTS, which take what is below 2^-126 for zero and
///             otherwise give the same bits, by 2^-126 sum (1 + |q| + |k|) more in bfloat16
///   Cost:     O(B H Sq Sk (D + Dv)); memory independent of Sq and Sk unless memory.weights is given
///   Source:   arXiv 1706.03762, equation 1; online softmax 1805.02867, tiles 2205.14135
template <Scalar T, class Bias = NoBias, Device D = detail::CallingThread>
void attention(HeadsView<const std::type_identity_t<T>> q,
               HeadsView<const std::type_identity_t<T>> k,
               HeadsView<const std::type_identity_t<T>> v, HeadsView<T> out,
               const AttentionOptions<std::type_identity_t<T>>& options = {}, const Bias& bias = {},
               const AttentionMemory<std::type_identity_t<T>>& memory = {}, const D& device = {}) {
  detail::attend_to_tensors<tier::Best, D, T>(device, q, k, v, out, options, bias, memory);
}

POSENC_END
