// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/list_view.hpp>
#include <posenc/tensor/extent.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>

// Views describe tensors in memory of the caller: a pointer, extents and strides, all in elements.
// The last axis (features; keys of a score tile) is contiguous. The order of the fields is the
// logical order of the axes, and their order in memory may differ. Adapters from Eigen types are in
// tensor/adapt.hpp and tensor/eigen.hpp. For raw pointers, fill the fields by name.
//
// An omitted stride is that of a dense tensor with these extents and the axes in the order of the
// fields. It is computed at initialisation: if you assign extents later, assign the strides, too,
// or they count as omitted.
//
// Extents have no default. A function throws ShapeError if one is omitted, and names it. A view
// that is omitted as a whole, `{}`, is allowed where a docstring calls it optional: a mask, a
// gradient, log-sum-exps, weights. Such a view has no data, and is not read or computed.
//
// Inputs may have any strides: 0 repeats the same elements along an axis (a broadcast), and a
// negative stride goes backwards. Outputs may have negative strides, but no two of their elements
// may share memory. If an axis of extent > 1 does not step over all that lies within it, the call
// throws ShapeError.
POSENC_BEGIN

namespace detail {

/// Returns the stride of an axis over dense inner axes, omitted if one of them is. If an Index
/// cannot hold it, returns the largest Index, which later checks reject.
constexpr Extent dense_stride(ListView<Index> inner) noexcept {
  for (const Extent extent : inner) {
    if (extent.is_omitted()) return extent;
  }
  return checked_mul_or((std::numeric_limits<Index>::max)(), inner);
}

}  // namespace detail

/// A view of per-head vectors [B, S, H, D]: queries, keys or values.
template <class T>
struct HeadsView {
  static_assert(detail::CheckScalar<std::remove_const_t<T>>::value);

  T* data = nullptr;  ///< address of element [0, 0, 0, 0]
  Extent batch = {},  ///< number of batch rows B
      seq = {},       ///< number of tokens S
      heads = {},     ///< number of heads H
      dim = {};       ///< number of features per head D
  Extent batch_stride = detail::dense_stride({seq, heads, dim});  ///< distance of batch rows
  Extent seq_stride = detail::dense_stride({heads, dim});         ///< distance of tokens
  Extent head_stride = dim;                                       ///< distance of heads

  /// Returns the D contiguous features of head h of token s of batch row b; `data` if D is 0,
  /// because the strides of a view without elements may be any numbers.
  T* row(Index b, Index s, Index h) const noexcept {
    return data + (dim == 0 ? 0 : b * batch_stride + s * seq_stride + h * head_stride);
  }
  /// True if there are no elements.
  bool empty() const noexcept { return batch <= 0 || seq <= 0 || heads <= 0 || dim <= 0; }
  /// Returns the extents [B, S, H, D].
  std::array<Index, 4> extents() const noexcept { return {batch, seq, heads, dim}; }
  /// Returns a view of the same elements that cannot write them.
  operator HeadsView<const T>() const noexcept {
    return {data, batch, seq, heads, dim, batch_stride, seq_stride, head_stride};
  }
};

/// A view of token vectors [B, S, D]: embeddings or hidden states.
template <class T>
struct EmbeddingsView {
  static_assert(detail::CheckScalar<std::remove_const_t<T>>::value);

  T* data = nullptr;                                       ///< address of element [0, 0, 0]
  Extent batch = {},                                       ///< number of batch rows B
      seq = {},                                            ///< number of tokens S
      dim = {};                                            ///< number of features D
  Extent batch_stride = detail::dense_stride({seq, dim});  ///< distance of batch rows
  Extent seq_stride = dim;                                 ///< distance of tokens

  /// Returns the D contiguous features of token s of batch row b; `data` if D is 0.
  T* row(Index b, Index s) const noexcept {
    return data + (dim == 0 ? 0 : b * batch_stride + s * seq_stride);
  }
  /// True if there are no elements.
  bool empty() const noexcept { return batch <= 0 || seq <= 0 || dim <= 0; }
  /// Returns the extents [B, S, D].
  std::array<Index, 3> extents() const noexcept { return {batch, seq, dim}; }
  /// Returns a view of the same elements that cannot write them.
  operator EmbeddingsView<const T>() const noexcept {
    return {data, batch, seq, dim, batch_stride, seq_stride};
  }
};

/// A view of a matrix [R, C]: a learned table, or a score tile of queries by keys.
template <class T>
struct MatrixView {
  T* data = nullptr;         ///< address of element [0, 0]
  Extent rows = {},          ///< number of rows R
      cols = {};             ///< number of columns C
  Extent row_stride = cols;  ///< distance of rows

  /// Returns the C contiguous elements of row r; `data` if C is 0.
  T* row(Index r) const noexcept { return data + (cols == 0 ? 0 : r * row_stride); }
  /// True if there are no elements.
  bool empty() const noexcept { return rows <= 0 || cols <= 0; }
  /// Returns the extents [R, C].
  std::array<Index, 2> extents() const noexcept { return {rows, cols}; }
  /// Returns a view of the same elements that cannot write them.
  operator MatrixView<const T>() const noexcept { return {data, rows, cols, row_stride}; }
};

/// A view of scores, weights, or a mask [B, H, Sq, Sk]. Axes of extent 1 of a mask are broadcast.
/// The last axis may have a stride, unlike the features of other views.
template <class T>
struct ScoresView {
  static_assert(detail::CheckScoresElement<std::remove_const_t<T>>::value);

  T* data = nullptr;  ///< address of element [0, 0, 0, 0]
  Extent batch = {},  ///< number of batch rows B
      heads = {},     ///< number of heads H
      queries = {},   ///< number of queries Sq
      keys = {};      ///< number of keys Sk
  Extent batch_stride = detail::dense_stride({heads, queries, keys});  ///< distance of batch rows
  Extent head_stride = detail::dense_stride({queries, keys});          ///< distance of heads
  Extent query_stride = keys;                                          ///< distance of queries
  Extent key_stride = 1;                                               ///< distance of keys

  /// Returns the element of query i and key j in head h of batch row b.
  T& operator()(Index b, Index h, Index i, Index j) const noexcept {
    return data[b * batch_stride + h * head_stride + i * query_stride + j * key_stride];
  }
  /// True if there are no elements.
  bool empty() const noexcept { return batch <= 0 || heads <= 0 || queries <= 0 || keys <= 0; }
  /// Returns the extents [B, H, Sq, Sk].
  std::array<Index, 4> extents() const noexcept { return {batch, heads, queries, keys}; }
  /// Returns a view of the same elements that cannot write them.
  operator ScoresView<const T>() const noexcept {
    return {data, batch, heads, queries, keys, batch_stride, head_stride, query_stride, key_stride};
  }
};

/// A view of one number per query and head [B, H, Sq]: the log-sum-exp (LSE) of attention scores.
template <class T>
struct LseView {
  T* data = nullptr;                                             ///< address of element [0, 0, 0]
  Extent batch = {},                                             ///< number of batch rows B
      heads = {},                                                ///< number of heads H
      queries = {};                                              ///< number of queries Sq
  Extent batch_stride = detail::dense_stride({heads, queries});  ///< distance of batch rows
  Extent head_stride = queries;                                  ///< distance of heads
  Extent query_stride = 1;                                       ///< distance of queries

  /// Returns the element of query i in head h of batch row b.
  T& operator()(Index b, Index h, Index i) const noexcept {
    return data[b * batch_stride + h * head_stride + i * query_stride];
  }
  /// Returns the extents [B, H, Sq].
  std::array<Index, 3> extents() const noexcept { return {batch, heads, queries}; }
  /// Returns a view of the same elements that cannot write them.
  operator LseView<const T>() const noexcept {
    return {data, batch, heads, queries, batch_stride, head_stride, query_stride};
  }
};

// ---- checks of views, before there is arithmetic with them ----

namespace detail {

/// The names of an axis' extent and stride, for messages.
struct AxisNames {
  const char *extent, *stride;
};

inline constexpr std::array<AxisNames, 4> heads_axes{{{"batch", "batch_stride"},
                                                      {"seq", "seq_stride"},
                                                      {"heads", "head_stride"},
                                                      {"dim", "stride of the features"}}};
inline constexpr std::array<AxisNames, 3> embeddings_axes{
    {{"batch", "batch_stride"}, {"seq", "seq_stride"}, {"dim", "stride of the features"}}};
inline constexpr std::array<AxisNames, 2> matrix_axes{
    {{"rows", "row_stride"}, {"cols", "stride of the columns"}}};
inline constexpr std::array<AxisNames, 4> scores_axes{{{"batch", "batch_stride"},
                                                       {"heads", "head_stride"},
                                                       {"queries", "query_stride"},
                                                       {"keys", "key_stride"}}};
inline constexpr std::array<AxisNames, 3> lse_axes{
    {{"batch", "batch_stride"}, {"heads", "head_stride"}, {"queries", "query_stride"}}};

/// A view without its type: checks take it, so that they are compiled once for all views.
struct ViewLayout {
  ListView<AxisNames> axes;               ///< in the order of the view's fields
  std::array<Index, 4> extents, strides;  ///< of these axes
  Index element_size;                     ///< in bytes
  bool has_data;

  std::size_t rank() const noexcept { return axes.size(); }
  ListView<Index> all_extents() const noexcept { return {extents.data(), rank()}; }
  ListView<Index> all_strides() const noexcept { return {strides.data(), rank()}; }
  /// True if there are no data, and no extent is set.
  bool is_omitted() const noexcept {
    for (const Index extent : all_extents()) {
      if (!Extent(extent).is_omitted()) return false;
    }
    return !has_data;
  }
};

template <class T>
ViewLayout layout_of(const HeadsView<T>& x) noexcept {
  return {.axes = {heads_axes.data(), heads_axes.size()},
          .extents = {x.batch, x.seq, x.heads, x.dim},
          .strides = {x.batch_stride, x.seq_stride, x.head_stride, 1},
          .element_size = sizeof(T),
          .has_data = x.data != nullptr};
}
template <class T>
ViewLayout layout_of(const EmbeddingsView<T>& x) noexcept {
  return {.axes = {embeddings_axes.data(), embeddings_axes.size()},
          .extents = {x.batch, x.seq, x.dim},
          .strides = {x.batch_stride, x.seq_stride, 1},
          .element_size = sizeof(T),
          .has_data = x.data != nullptr};
}
template <class T>
ViewLayout layout_of(const MatrixView<T>& x) noexcept {
  return {.axes = {matrix_axes.data(), matrix_axes.size()},
          .extents = {x.rows, x.cols},
          .strides = {x.row_stride, 1},
          .element_size = sizeof(T),
          .has_data = x.data != nullptr};
}
template <class T>
ViewLayout layout_of(const ScoresView<T>& x) noexcept {
  return {.axes = {scores_axes.data(), scores_axes.size()},
          .extents = {x.batch, x.heads, x.queries, x.keys},
          .strides = {x.batch_stride, x.head_stride, x.query_stride, x.key_stride},
          .element_size = sizeof(T),
          .has_data = x.data != nullptr};
}
template <class T>
ViewLayout layout_of(const LseView<T>& x) noexcept {
  return {.axes = {lse_axes.data(), lse_axes.size()},
          .extents = {x.batch, x.heads, x.queries},
          .strides = {x.batch_stride, x.head_stride, x.query_stride},
          .element_size = sizeof(T),
          .has_data = x.data != nullptr};
}

/// Returns the largest linear index of an element: its distance from the first element in memory,
/// or its number in row-major order if that is larger. Returns nothing if an Index cannot hold it.
inline std::optional<Index> max_linear_index(ListView<Index> extents,
                                             ListView<Index> strides) noexcept {
  std::optional<Index> reach = 0, count = 1;
  for (std::size_t axis = 0; axis < extents.size() && reach && count; ++axis) {
    count = checked_mul(*count, extents[axis]);
    if (extents[axis] <= 1) continue;
    const Index stride = strides[axis];
    if (stride == (std::numeric_limits<Index>::min)()) return std::nullopt;
    const auto axis_span = checked_mul(extents[axis] - 1, stride < 0 ? -stride : stride);
    reach = axis_span ? checked_add(*reach, *axis_span) : std::nullopt;
  }
  if (!count || !reach) return std::nullopt;
  return (std::max)(*count - 1, *reach);
}

/// Throws ShapeError for a view with an extent that is omitted, or else negative.
[[noreturn]] POSENC_COLD inline void fail_extents(const char* function, const char* name,
                                                  const ViewLayout& x) {
  for (std::size_t n = 0; n < x.rank(); ++n) {
    if (Extent(x.extents[n]).is_omitted()) {
      fail<ShapeError>(function, name, ".", x.axes[n].extent, " must be set, if only to 0");
    }
  }
  fail<ShapeError>(function, name, " ", x.all_extents(), " must not have a negative extent");
}

/// Throws ShapeError for a view whose elements are farther apart than memory can be.
[[noreturn]] POSENC_COLD inline void fail_strides(const char* function, const char* name,
                                                  const ViewLayout& x) {
  for (std::size_t n = 0; n < x.rank(); ++n) {
    if (x.extents[n] > 1 && Extent(x.strides[n]).is_omitted()) {
      fail<ShapeError>(function, name, ".", x.axes[n].stride,
                       " must be set, because extents were assigned after initialisation");
    }
  }
  fail<ShapeError>(function, name, " ", x.all_extents(), " with strides ", x.all_strides(),
                   " exceeds the address space");
}

POSENC_COLD inline void check_layout(const char* function, const char* name, const ViewLayout& x) {
  bool is_empty = false;
  for (const Index extent : x.all_extents()) {
    if (extent < 0) fail_extents(function, name, x);
    is_empty = is_empty || extent == 0;
  }
  if (is_empty) return;
  if (!x.has_data) {
    fail<ShapeError>(function, name, " ", x.all_extents(),
                     " has elements but no memory: data is null");
  }
  const auto reach = max_linear_index(x.all_extents(), x.all_strides());
  // A process can address 2^56 bytes with addresses of 57 bits, the most of any processor.
  if (!reach || *reach >= (Index{1} << 56) / x.element_size) fail_strides(function, name, x);
}

/// Checks a view. Every public function calls it before it does arithmetic with a view. `name` is
/// the name of the view in messages.
///   Throws: ShapeError if an extent is omitted or negative, if there are elements but data is
///           null, or if elements are farther apart than memory can be
template <class View>
void check_extents(const char* function, const char* name, const View& x) {
  check_layout(function, name, layout_of(x));
}

/// True if an optional view has no data, and none of its extents is set.
template <class View>
bool is_omitted(const View& x) noexcept {
  return layout_of(x).is_omitted();
}

/// Checks a view that may be omitted as a whole, as check_extents() does.
///   Throws: ShapeError
template <class View>
void check_optional_extents(const char* function, const char* name, const View& x) {
  if (!is_omitted(x)) check_extents(function, name, x);
}

}  // namespace detail

// ---- slices: the same memory, fewer elements ----

namespace detail {
/// Throws ShapeError unless [first, first + count) lies within an axis of x.
template <class View>
void check_slice(const char* function, const View& x, Index first, Index count, Index extent) {
  check_extents(function, "x", x);
  if (first < 0 || count < 0 || extent < count || first > extent - count) {
    const auto end = checked_add(first, count);
    fail<ShapeError>(function, "the slice [", first, ", ",
                     end ? to_text(*end) : std::string("more than 2^63 - 1"),
                     ") must lie within the axis of ", extent);
  }
}

/// Moves the data of a sliced view to its first element. A view without elements stays where it is,
/// because such an address may not exist.
template <class View>
void move_data(View& x, Index first, Index stride) noexcept {
  if (!x.empty()) x.data += first * stride;
}
}  // namespace detail

/// Returns heads first .. first + count - 1. With slice_features() this slices q, k and v out of a
/// fused QKV buffer.
///   Throws: ShapeError, also if these heads do not lie within x
template <class T>
HeadsView<T> slice_heads(HeadsView<T> x, Index first, Index count) {
  detail::check_slice("slice_heads", x, first, count, x.heads);
  x.heads = count;
  detail::move_data(x, first, x.head_stride);
  return x;
}

/// Returns tokens first .. first + count - 1 of a HeadsView or EmbeddingsView.
///   Throws: ShapeError, also if these tokens do not lie within x
template <class View>
View slice_seq(View x, Index first, Index count) {
  detail::check_slice("slice_seq", x, first, count, x.seq);
  x.seq = count;
  detail::move_data(x, first, x.seq_stride);
  return x;
}

/// Returns features first .. first + count - 1 of a HeadsView or EmbeddingsView.
///   Throws: ShapeError, also if these features do not lie within x
template <class View>
View slice_features(View x, Index first, Index count) {
  detail::check_slice("slice_features", x, first, count, x.dim);
  x.dim = count;
  detail::move_data(x, first, 1);
  return x;
}

/// Returns a view of x [B, S, H*D] as [B, S, H, D].
///   Throws: ShapeError, also if `heads` is not positive or does not divide the last axis
template <class T>
HeadsView<T> split_heads(EmbeddingsView<T> x, Index heads) {
  detail::check_extents("split_heads", "x", x);
  if (heads <= 0 || x.dim % heads != 0) {
    detail::fail<ShapeError>("split_heads", "the number of heads (", heads,
                             ") must divide the last axis; x is ", x.extents());
  }
  const Index dim = x.dim / heads;
  return {x.data, x.batch, x.seq, heads, dim, x.batch_stride, x.seq_stride, dim};
}

POSENC_END
