// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <array>
#include <cstddef>
#include <type_traits>

// Views describe tensors that belong to somebody else: a pointer, extents and strides, all in
// elements. The last axis (features; keys of a score tile) is contiguous. The axes are logical:
// they are always read in the order of the fields, whatever their order in memory. Adapters from
// Eigen types are in tensor/adapt.hpp and tensor/eigen.hpp; raw pointers fill the fields by name.
POSENC_BEGIN

/// Per-head vectors [B, S, H, D]: queries, keys or values.
template <class T>
struct HeadsView {
  T* data = nullptr;
  Index batch = 0, seq = 0, heads = 0, dim = 0;
  Index batch_stride = 0, seq_stride = 0, head_stride = 0;

  /// The D contiguous features of head h at position s of batch row b.
  T* row(Index b, Index s, Index h) const noexcept {
    return data + (b * batch_stride + s * seq_stride + h * head_stride);
  }
  bool empty() const noexcept { return batch == 0 || seq == 0 || heads == 0 || dim == 0; }
  std::array<Index, 4> extents() const noexcept { return {batch, seq, heads, dim}; }
  operator HeadsView<const T>() const noexcept {
    return {data, batch, seq, heads, dim, batch_stride, seq_stride, head_stride};
  }
};

/// Token vectors [B, S, D]: embeddings or hidden states.
template <class T>
struct EmbeddingsView {
  T* data = nullptr;
  Index batch = 0, seq = 0, dim = 0;
  Index batch_stride = 0, seq_stride = 0;

  T* row(Index b, Index s) const noexcept { return data + (b * batch_stride + s * seq_stride); }
  bool empty() const noexcept { return batch == 0 || seq == 0 || dim == 0; }
  std::array<Index, 3> extents() const noexcept { return {batch, seq, dim}; }
  operator EmbeddingsView<const T>() const noexcept {
    return {data, batch, seq, dim, batch_stride, seq_stride};
  }
};

/// A table or a tile [R, C]: rows of a learned table, or queries by keys.
template <class T>
struct MatrixView {
  T* data = nullptr;
  Index rows = 0, cols = 0;
  Index row_stride = 0;

  T* row(Index r) const noexcept { return data + r * row_stride; }
  bool empty() const noexcept { return rows == 0 || cols == 0; }
  std::array<Index, 2> extents() const noexcept { return {rows, cols}; }
  operator MatrixView<const T>() const noexcept { return {data, rows, cols, row_stride}; }
};

/// Scores, weights, or a mask [B, H, Sq, Sk]. An axis of extent 1 is broadcast where the view is a
/// mask; here alone the last axis may have a stride.
template <class T>
struct ScoresView {
  T* data = nullptr;
  Index batch = 0, heads = 0, queries = 0, keys = 0;
  Index batch_stride = 0, head_stride = 0, query_stride = 0, key_stride = 1;

  T& operator()(Index b, Index h, Index i, Index j) const noexcept {
    return data[b * batch_stride + h * head_stride + i * query_stride + j * key_stride];
  }
  std::array<Index, 4> extents() const noexcept { return {batch, heads, queries, keys}; }
  operator ScoresView<const T>() const noexcept {
    return {data, batch, heads, queries, keys, batch_stride, head_stride, query_stride, key_stride};
  }
};

// ---- slices: the same memory, fewer elements
// -----------------------------------------------------------------------

namespace detail {
inline void check_slice(const char* function, Index first, Index count, Index extent) {
  if (first < 0 || count < 0 || first > extent - count) {
    fail<ShapeError>(function, "the slice [", first, ", ", first + count,
                     ") must lie within the axis of ", extent);
  }
}
}  // namespace detail

/// Heads first .. first + count - 1; with slice_features() this cuts q, k and v out of a fused QKV
/// buffer.
template <class T>
HeadsView<T> slice_heads(HeadsView<T> x, Index first, Index count) {
  detail::check_slice("slice_heads", first, count, x.heads);
  x.data += first * x.head_stride;
  x.heads = count;
  return x;
}

/// Sequence positions first .. first + count - 1 of HeadsView or EmbeddingsView.
template <class View>
View slice_seq(View x, Index first, Index count) {
  detail::check_slice("slice_seq", first, count, x.seq);
  x.data += first * x.seq_stride;
  x.seq = count;
  return x;
}

/// Features first .. first + count - 1 of HeadsView or EmbeddingsView.
template <class View>
View slice_features(View x, Index first, Index count) {
  detail::check_slice("slice_features", first, count, x.dim);
  x.data += first;
  x.dim = count;
  return x;
}

/// [B, S, H*D] read as [B, S, H, D].
template <class T>
HeadsView<T> split_heads(EmbeddingsView<T> x, Index heads) {
  if (heads <= 0 || x.dim % heads != 0) {
    detail::fail<ShapeError>("split_heads", "the number of heads (", heads,
                             ") must divide the last axis; x is ", x.extents());
  }
  const Index dim = x.dim / heads;
  return {x.data, x.batch, x.seq, heads, dim, x.batch_stride, x.seq_stride, dim};
}

// ---- checks shared by all encoders
// ---------------------------------------------------------------------------------

namespace detail {

/// Lowest and one past the highest address of a view; equal for empty ones.
template <class T>
struct AddressRange {
  const T* begin = nullptr;
  const T* end = nullptr;
};

template <class T>
AddressRange<T> address_range(const HeadsView<T>& x) {
  if (x.empty()) return {x.data, x.data};
  const T* low = x.data;
  const T* high = x.data + x.dim;
  const std::array<Index, 3> reach{(x.batch - 1) * x.batch_stride, (x.seq - 1) * x.seq_stride,
                                   (x.heads - 1) * x.head_stride};
  for (const Index r : reach) (r < 0 ? low : high) += r;
  return {low, high};
}

/// In checked builds: input and output are the same view or share no memory at all.
template <class T>
void check_overlap([[maybe_unused]] const char* function,
                   [[maybe_unused]] const HeadsView<const T>& in,
                   [[maybe_unused]] const HeadsView<T>& out) {
#if POSENC_CHECKED
  const bool same = in.data == out.data && in.batch_stride == out.batch_stride &&
                    in.seq_stride == out.seq_stride && in.head_stride == out.head_stride;
  const auto a = address_range<const T>(in);
  const auto b = address_range<const T>(out);
  if (!same && a.begin < b.end && b.begin < a.end) {
    fail<ShapeError>(
        function,
        "input and output overlap in part; pass the same view or separate memory; input is ",
        in.extents());
  }
#endif
}

}  // namespace detail
POSENC_END
