// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <type_traits>
#include <vector>

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

/// One number a query and head [B, H, Sq]: the log-sum-exp of attention scores.
template <class T>
struct LseView {
  T* data = nullptr;
  Index batch = 0, heads = 0, queries = 0;
  Index batch_stride = 0, head_stride = 0, query_stride = 1;

  T& operator()(Index b, Index h, Index i) const noexcept {
    return data[b * batch_stride + h * head_stride + i * query_stride];
  }
  std::array<Index, 3> extents() const noexcept { return {batch, heads, queries}; }
  operator LseView<const T>() const noexcept {
    return {data, batch, heads, queries, batch_stride, head_stride, query_stride};
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

/// One row of a view as a run of addresses.
template <class T>
struct RowRange {
  const T* begin;
  const T* end;
  bool of_output;
};

template <class T>
void append_rows(const HeadsView<const T>& x, bool of_output, std::vector<RowRange<T>>& rows) {
  for (Index b = 0; b < x.batch; ++b) {
    for (Index s = 0; s < x.seq; ++s) {
      for (Index h = 0; h < x.heads; ++h) {
        rows.push_back({x.row(b, s, h), x.row(b, s, h) + x.dim, of_output});
      }
    }
  }
}

/// Whether a row of one view shares memory with a row of the other. Rows, not whole views, because
/// the q and k of a fused buffer lie between each other without touching.
template <class T>
bool rows_meet(const HeadsView<const T>& in, const HeadsView<const T>& out) {
  std::vector<RowRange<T>> rows;
  append_rows<T>(in, false, rows);
  append_rows<T>(out, true, rows);
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return std::less<const T*>()(a.begin, b.begin); });
  const T* in_end = nullptr;
  const T* out_end = nullptr;
  for (const RowRange<T>& row : rows) {
    const T* other_end = row.of_output ? in_end : out_end;
    if (other_end != nullptr && std::less<const T*>()(row.begin, other_end)) return true;
    const T*& own_end = row.of_output ? out_end : in_end;
    own_end = own_end == nullptr ? row.end : (std::max)(own_end, row.end, std::less<const T*>());
  }
  return false;
}

/// In checked builds: input and output are the same view or share no memory at all.
template <class T>
void check_overlap([[maybe_unused]] const char* function,
                   [[maybe_unused]] const HeadsView<const T>& in,
                   [[maybe_unused]] const HeadsView<T>& out) {
#if POSENC_CHECKED
  const auto agree = [](Index extent, Index a, Index b) { return extent <= 1 || a == b; };
  const bool same = in.data == out.data && agree(in.batch, in.batch_stride, out.batch_stride) &&
                    agree(in.seq, in.seq_stride, out.seq_stride) &&
                    agree(in.heads, in.head_stride, out.head_stride);
  if (!same && !in.empty() && !out.empty() && rows_meet<T>(in, out)) {
    fail<ShapeError>(
        function,
        "input and output overlap in part; pass the same view or separate memory; input is ",
        in.extents());
  }
#endif
}

/// Every public function looks at its views with this before it does arithmetic with them: no extent is
/// negative, and where there are elements, there is memory, no more than there can be.
///   Throws: ShapeError
template <class View>
void check_extents(const char* function, const char* name, const View& x) {
  const auto extents = x.extents();
  bool is_empty = false;
  for (const Index extent : extents) {
    if (extent < 0) {
      fail<ShapeError>(function, name, " ", extents, " must not have negative extents");
    }
    is_empty = is_empty || extent == 0;
  }
  if (is_empty) return;
  if (x.data == nullptr) {
    fail<ShapeError>(function, name, " ", extents, " has elements but no memory: data is null");
  }
  Index left = (Index{1} << 56) / Index{sizeof(*x.data)};
  for (const Index extent : extents) {
    if (extent > left) {
      fail<ShapeError>(function, name, " ", extents, " is larger than any memory");
    }
    left /= extent;
  }
}

}  // namespace detail
POSENC_END
