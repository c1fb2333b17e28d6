// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <span>
#include <type_traits>
#include <vector>

POSENC_STABLE_BEGIN

/// Where the rotary channels lie among the rows of a projection.
struct HeadRows {
  Index head_dim = 0;       ///< required; rows of one head
  Index rotary_dim = 0;     ///< required; even; head_dim if all of it is rotated
  Index rotary_offset = 0;  ///< first rotary channel of a head
};

POSENC_STABLE_END

POSENC_BEGIN

namespace detail {

/// source[j] is the rotary channel of From's order that stands at j in To's.
template <class From, class To>
std::vector<Index> pair_order(Index pairs) {
  std::vector<Index> source(static_cast<std::size_t>(2 * pairs));
  for (Index i = 0; i < pairs; ++i) {
    source[static_cast<std::size_t>(To::first(i, pairs))] = From::first(i, pairs);
    source[static_cast<std::size_t>(To::second(i, pairs))] = From::second(i, pairs);
  }
  return source;
}

inline void check_head_rows(const char* function, Index rows, const HeadRows& heads) {
  if (heads.head_dim <= 0) {
    fail<ConfigError>(function, "head_dim must be given and positive but is ", heads.head_dim);
  }
  if (heads.rotary_dim < 2 || heads.rotary_dim % 2 != 0) {
    fail<ConfigError>(function, "rotary_dim must be even and at least 2 but is ", heads.rotary_dim);
  }
  if (heads.rotary_offset < 0 || heads.rotary_dim > heads.head_dim ||
      heads.rotary_offset > heads.head_dim - heads.rotary_dim) {
    fail<ConfigError>(function, "head_dim (", heads.head_dim, ") must hold the rotary channels [",
                      heads.rotary_offset, ", ", heads.rotary_offset + heads.rotary_dim, ")");
  }
  if (rows % heads.head_dim != 0) {
    fail<ShapeError>(function, "the number of rows (", rows, ") must be a multiple of head_dim (",
                     heads.head_dim, ")");
  }
}

/// A matrix as tokens of one head, for the check of overlaps.
template <class T>
HeadsView<T> as_heads(MatrixView<T> x) {
  return {x.data, 1, x.rows, 1, x.cols, 0, x.row_stride, 0};
}

/// Moves row source[j] to j, for all j, by following the cycles of the permutation. `done` has as many
/// entries, whatever they are.
template <class T>
void permute_rows(T* first_row, Index cols, Index row_stride, std::span<const Index> source,
                  std::vector<bool>& done) {
  const auto row = [&](std::size_t j) { return first_row + static_cast<Index>(j) * row_stride; };
  std::fill(done.begin(), done.end(), false);
  for (std::size_t start = 0; start < source.size(); ++start) {
    for (std::size_t j = start; !done[j];) {
      done[j] = true;
      const auto next = static_cast<std::size_t>(source[j]);
      if (done[next]) break;
      std::swap_ranges(row(j), row(j) + cols, row(next));
      j = next;
    }
  }
}

/// The memory that permutations take, taken before anything is written.
template <class From, class To>
struct PairPermutation {
  std::vector<Index> source;
  std::vector<bool> done;

  explicit PairPermutation(const HeadRows& heads)
      : source(pair_order<From, To>(heads.rotary_dim / 2)), done(source.size()) {}

  template <class T>
  void apply(MatrixView<T> weights, const HeadRows& heads) {
    for (Index row = heads.rotary_offset; row < weights.rows; row += heads.head_dim) {
      permute_rows(weights.row(row), weights.cols, weights.row_stride, source, done);
    }
  }
};

}  // namespace detail

/// Rearranges the rows of W_q or W_k, in place, so that rope with pairing To makes of the new
/// projection what rope with pairing From made of the old: the same scores to rounding, the same
/// products bit for bit. From Interleaved to HalfRotate is what Hugging Face's converter does to
/// Meta's Llama, the other way what llama.cpp's does to Hugging Face's.
///   Shapes: weights [heads * head_dim, in]; heads is that of queries for W_q and that of keys for
///           W_k, by the number of rows. A bias is [heads * head_dim, 1], per-channel gains of a norm
///           [head_dim, 1]; never permute W_v
///   Types:  any that can be swapped, rows of quantised bytes too
///   Rows outside the rotary channels stay; From and To exchanged undo it bit for bit.
///   Throws: ConfigError, ShapeError
template <class From, class To, class T>
void permute_pairs(MatrixView<T> weights, const HeadRows& heads) {
  detail::check_head_rows("permute_pairs", weights.rows, heads);
  if (weights.empty()) return;
  detail::PairPermutation<From, To>(heads).apply(weights, heads);
}

/// The same into out, which is the input itself or shares no memory with it.
template <class From, class To, class T>
void permute_pairs(MatrixView<const std::type_identity_t<T>> weights, MatrixView<T> out,
                   const HeadRows& heads) {
  constexpr auto function = "permute_pairs";
  detail::check_head_rows(function, weights.rows, heads);
  if (weights.extents() != out.extents()) {
    detail::fail<ShapeError>(function, "input ", weights.extents(), " and output ", out.extents(),
                             " must have the same shape");
  }
  detail::check_overlap<T>(function, detail::as_heads(weights), detail::as_heads(out));
  if (out.empty()) return;
  detail::PairPermutation<From, To> permutation(heads);
  if (weights.data != out.data) {
    for (Index row = 0; row < out.rows; ++row) {
      std::copy_n(weights.row(row), out.cols, out.row(row));
    }
  }
  permutation.apply(out, heads);
}

/// A bias, or the per-channel gains of a norm.
template <class From, class To, class T>
void permute_pairs(std::span<T> bias, const HeadRows& heads) {
  permute_pairs<From, To>(MatrixView<T>{bias.data(), static_cast<Index>(bias.size()), 1, 1}, heads);
}

POSENC_END
