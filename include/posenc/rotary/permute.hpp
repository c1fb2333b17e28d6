// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

POSENC_STABLE_BEGIN

/// The location of the rotary channels among the rows of a projection.
struct HeadLayout {
  Index head_dim = 0;       ///< required; rows of one head
  Index rotary_dim = 0;     ///< required; even; equal to head_dim if every channel is rotated
  Index rotary_offset = 0;  ///< first rotary channel of a head
};

static_assert(std::is_trivially_copyable_v<HeadLayout>);

POSENC_STABLE_END

POSENC_BEGIN

namespace detail {

/// Returns for each j the channel in From's order that is at j in To's order.
template <class From, class To>
std::vector<Index> pairing_permutation(Index pairs) {
  std::vector<Index> source(static_cast<std::size_t>(2 * pairs));
  for (Index i = 0; i < pairs; ++i) {
    source[static_cast<std::size_t>(To::first(i, pairs))] = From::first(i, pairs);
    source[static_cast<std::size_t>(To::second(i, pairs))] = From::second(i, pairs);
  }
  return source;
}

template <class T>
void check_head_layout(const char* function, const MatrixView<T>& weights,
                       const HeadLayout& heads) {
  check_extents(function, "weights", weights);
  if (heads.head_dim <= 0) {
    fail<ConfigError>(function, "head_dim must be set and positive but is ", heads.head_dim);
  }
  if (heads.rotary_dim < 2 || heads.rotary_dim % 2 != 0) {
    fail<ConfigError>(function, "rotary_dim must be even and at least 2 but is ", heads.rotary_dim);
  }
  if (heads.rotary_offset < 0 || heads.rotary_dim > heads.head_dim ||
      heads.rotary_offset > heads.head_dim - heads.rotary_dim) {
    const auto end = checked_add(heads.rotary_offset, heads.rotary_dim);
    fail<ConfigError>(function, "head_dim (", heads.head_dim,
                      ") must include the rotary channels [", heads.rotary_offset, ", ",
                      end.value_or(heads.rotary_dim), ")");
  }
  if (weights.rows % heads.head_dim != 0) {
    fail<ShapeError>(function, "the number of rows (", weights.rows,
                     ") must be a multiple of head_dim (", heads.head_dim, ")");
  }
}

/// Two rows to swap.
struct RowSwap {
  Index row, other;
};

/// Returns the swaps, in order, that convert From's order of channels to To's. They follow the
/// cycles of the permutation.
template <class From, class To>
std::vector<RowSwap> pair_swaps(Index pairs) {
  std::vector<Index> source = pairing_permutation<From, To>(pairs);
  constexpr Index done = -1;
  std::vector<RowSwap> swaps;
  swaps.reserve(source.size());
  for (std::size_t start = 0; start < source.size(); ++start) {
    for (std::size_t j = start; source[j] != done;) {
      const auto next = static_cast<std::size_t>(std::exchange(source[j], done));
      if (source[next] == done) break;
      swaps.push_back({static_cast<Index>(j), static_cast<Index>(next)});
      j = next;
    }
  }
  return swaps;
}

/// Copies each head's rows, unless the output is the input, and swaps rows, head by head, on the
/// threads of a device.
template <Device D, class T>
void permute_heads(const D& device, MatrixView<const T> weights, MatrixView<T> out,
                   const HeadLayout& heads, const std::vector<RowSwap>& swaps) {
  const double bytes = static_cast<double>(heads.head_dim * out.cols) * sizeof(T);
  parallel_for(device, out.rows / heads.head_dim, bytes, bytes / 8, [&](Index head, Index end) {
    for (; head < end; ++head) {
      const Index first = head * heads.head_dim;
      if (weights.data != out.data) {
        for (Index row = first; row < first + heads.head_dim; ++row) {
          std::copy_n(weights.row(row), out.cols, out.row(row));
        }
      }
      for (const RowSwap& swap : swaps) {
        T* const row = out.row(first + heads.rotary_offset + swap.row);
        std::swap_ranges(row, row + out.cols, out.row(first + heads.rotary_offset + swap.other));
      }
    }
  });
}

}  // namespace detail

/// Converts the rows of W_q or W_k, in place, from pairing From to pairing To. A rope with pairing
/// To on the new projection then equals a rope with pairing From on the old one. Products are
/// bit-identical, and scores are equal up to rounding.
/// Interleaved to HalfRotate is the conversion of Hugging Face's converter for Meta's Llama; the
/// reverse is llama.cpp's conversion of Hugging Face models. Rows outside the rotary channels are
/// unchanged. Exchanging From and To undoes the conversion bit for bit.
///   Shapes: weights [heads * head_dim, in], with query heads for W_q and KV heads for W_k, derived
///           from the number of rows. A bias is [heads * head_dim, 1], per-channel gains of a norm
///           are [head_dim, 1]. Never permute W_v. Weights of your own are MatrixView<T>{.data = w,
///           .rows = heads * head_dim, .cols = in}
///   Types:  any swappable type, rows of quantised bytes included
///   Throws: ConfigError, ShapeError
///   Device: the threads of the device share the heads
template <class From, class To, class T, Device D = detail::CallingThread>
void permute_pairs(MatrixView<T> weights, const HeadLayout& heads, const D& device = {}) {
  detail::check_head_layout("permute_pairs", weights, heads);
  detail::check_output("permute_pairs", "weights", weights);
  if (weights.empty()) return;
  const auto swaps = detail::pair_swaps<From, To>(heads.rotary_dim / 2);
  detail::permute_heads<D, T>(device, weights, weights, heads, swaps);
}

/// Overload that writes to `out`, which must be the input itself or share no memory with it.
template <class From, class To, class T, Device D = detail::CallingThread>
void permute_pairs(MatrixView<const std::type_identity_t<T>> weights, MatrixView<T> out,
                   const HeadLayout& heads, const D& device = {}) {
  constexpr auto function = "permute_pairs";
  detail::check_head_layout(function, weights, heads);
  detail::check_extents(function, "out", out);
  if (weights.extents() != out.extents()) {
    detail::fail<ShapeError>(function, "input ", weights.extents(), " and output ", out.extents(),
                             " must have the same shape");
  }
  detail::check_output(function, "out", out);
  detail::check_overlap(function, weights, out);
  if (weights.empty()) return;
  const auto swaps = detail::pair_swaps<From, To>(heads.rotary_dim / 2);
  detail::permute_heads<D, T>(device, weights, out, heads, swaps);
}

/// Overload for a bias, or for the per-channel gains of a norm.
template <class From, class To, class T, Device D = detail::CallingThread>
void permute_pairs(std::span<T> bias, const HeadLayout& heads, const D& device = {}) {
  permute_pairs<From, To>(MatrixView<T>{bias.data(), static_cast<Index>(bias.size()), 1, 1}, heads,
                          device);
}

POSENC_END
