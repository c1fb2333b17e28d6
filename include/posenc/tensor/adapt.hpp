// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <type_traits>

// Adapters from tensors to views, without a copy. The letters of a name are the indices of the
// tensor in their order. The features d are contiguous, so their place in the name implies the
// storage order:
//
//   row-major     bshd  bhsd  shd  hsd  bsd  sd     x(b, s, h, d) ...
//   column-major  dhsb  dshb  dhs  dsh  dsb  ds     x(d, h, s, b) ...: the same memory, reversed
//
// head_sd and head_ds view a matrix as one head, for rotation and attention. An adapter of the
// other storage order does not compile. The right one depends on how the tensor is indexed. Eigen's
// default, a column-major x(s, d), is neither sd nor ds, because the features of a token are not
// contiguous. No check of extents finds such a mistake on a square matrix, so use the letters of
// the tensor's indices. Tables, masks and scores (table_view, bhqk, hqk, qk, bk, bhq) are
// row-major. In Eigen a row vector is row-major and a column vector is column-major: sd(row) and
// ds(column) are both one token.
//
// A temporary that owns its memory does not compile, because the view would outlive it. Temporary
// maps and blocks compile. Rank and element type are checked at compile time, too.

// Forward declaration of Eigen::Ref, so that this header does not include Eigen.
namespace Eigen {
template <class PlainObject, int Options, class Stride>
class Ref;
}

POSENC_BEGIN

/// The memory of a tensor, with its axes from the outermost to the innermost.
template <class T, std::size_t Rank>
struct Strided {
  /// Type of the elements; const if they are read only.
  using Element = T;
  /// Address of the element whose indices are all 0.
  T* data;
  /// Number of indices of each axis.
  std::array<Index, Rank> extents;
  /// Distance between neighbours on each axis, in elements.
  std::array<Index, Rank> strides;
};

/// The description of a tensor type to the adapters:
///   static constexpr std::size_t rank
///   static constexpr bool row_major       true if the last index is the innermost axis, false if
///                                         the first index is
///   static constexpr bool owns_memory     false for maps and views, whose temporaries may be
///                                         viewed; true if omitted
///   static Strided<T, rank> describe(x)   for x and for const x; T is const for const x
/// This header specialises it for Eigen's dense matrices, maps and blocks, tensor/eigen.hpp for
/// Eigen::Tensor, TensorFixedSize and TensorMap. Specialise it for user-supplied types.
template <class X>
struct TensorTraits;

namespace detail {

/// A dense matrix, map or block of Eigen.
template <class X>
concept MatrixLike = requires(X& x) {
  x.data();
  x.rows();
  x.cols();
  x.innerStride();
  x.outerStride();
  X::IsRowMajor;
};

/// True for matrices and arrays, and for Eigen::Ref<const Matrix>, which holds a copy of an
/// argument whose layout does not match.
template <class X>
inline constexpr bool owns_matrix = !requires {
  typename X::PlainObject;
};
template <class X>
requires requires { typename X::PlainObject; }
inline constexpr bool owns_matrix<X> = std::is_same_v<typename X::PlainObject, X>;
template <class Matrix, int Options, class Stride>
inline constexpr bool owns_matrix<Eigen::Ref<const Matrix, Options, Stride>> = true;

}  // namespace detail

/// The description of Eigen's dense matrices, arrays, maps, blocks and Ref.
template <detail::MatrixLike X>
struct TensorTraits<X> {
  /// Number of axes.
  static constexpr std::size_t rank = 2;
  /// True if the last index is the innermost axis.
  static constexpr bool row_major = X::IsRowMajor;
  /// False for maps, blocks and Ref of non-const matrices.
  static constexpr bool owns_memory = detail::owns_matrix<X>;

  /// Returns the memory of x, without a copy.
  template <class Matrix>
  static auto describe(Matrix& x) {
    using T = std::remove_pointer_t<decltype(x.data())>;
    const Index outer_extent = X::IsRowMajor ? x.rows() : x.cols();
    const Index inner_extent = X::IsRowMajor ? x.cols() : x.rows();
    return Strided<T, 2>{
        x.data(), {outer_extent, inner_extent}, {x.outerStride(), x.innerStride()}};
  }
};

namespace detail {

enum class StorageOrder { RowMajor, ColumnMajor };
enum class AdaptError {
  None,
  NotATensor,
  UnknownStorageOrder,
  OwningTemporary,
  WrongRank,
  WrongStorageOrder
};

/// Returns the reason why an argument of type Arg cannot be viewed, or None. Arg is an lvalue
/// reference if the argument has a name.
template <class Arg, std::size_t Rank, StorageOrder Required>
constexpr AdaptError adapt_error() {
  using Traits = TensorTraits<std::remove_cvref_t<Arg>>;
  if constexpr (!requires { Traits::rank; }) {
    return AdaptError::NotATensor;
  } else if constexpr (!requires { Traits::row_major; }) {
    return AdaptError::UnknownStorageOrder;
  } else {
    bool owns_memory = true;
    if constexpr (requires { Traits::owns_memory; }) owns_memory = Traits::owns_memory;
    if (owns_memory && !std::is_lvalue_reference_v<Arg>) return AdaptError::OwningTemporary;
    if (Traits::rank != Rank) return AdaptError::WrongRank;
    return Traits::row_major == (Required == StorageOrder::RowMajor)
               ? AdaptError::None
               : AdaptError::WrongStorageOrder;
  }
}

/// False if only the storage order of an argument is wrong. Other errors have their own messages.
template <class Arg, std::size_t Rank, StorageOrder Required>
inline constexpr bool fits_order =
    adapt_error<Arg, Rank, Required>() != AdaptError::WrongStorageOrder;

/// Returns the Strided of x, for either storage order.
template <class Arg, std::size_t Rank, class X>
auto describe([[maybe_unused]] const char* function, [[maybe_unused]] X& x) {
  constexpr AdaptError error = adapt_error<Arg, Rank, StorageOrder::RowMajor>();
  static_assert(
      error != AdaptError::NotATensor,
      "posenc: this type is not a tensor that posenc can read. Include posenc/tensor/eigen.hpp for "
      "Eigen::Tensor, evaluate Eigen expressions first, fill a view (HeadsView, EmbeddingsView, "
      "...) "
      "from a raw pointer, or specialise posenc::TensorTraits.");
  static_assert(
      error != AdaptError::UnknownStorageOrder,
      "posenc: the TensorTraits of this type must define `static constexpr bool row_major`: true "
      "where the last index is the innermost axis, false where the first one is.");
  static_assert(error != AdaptError::OwningTemporary,
                "posenc: a view of this temporary would outlive it, because it owns its memory: "
                "store the tensor in a variable first. (TensorTraits of types that do not own "
                "their memory define `static constexpr bool owns_memory = false`.)");
  static_assert(
      error != AdaptError::WrongRank,
      "posenc: the tensor's rank is not the number of letters: bshd and dhsb take a rank-4 "
      "tensor, bsd and dsb a rank-3 one, sd, ds, head_sd, head_ds and table_view a matrix.");
  if constexpr (error == AdaptError::None || error == AdaptError::WrongStorageOrder) {
    using Traits = TensorTraits<std::remove_cvref_t<Arg>>;
    const auto t = Traits::describe(x);
    if (t.strides[Rank - 1] != 1 && t.extents[Rank - 1] > 1) {
      auto extents = t.extents;  // in the order of the indices of x
      if (!Traits::row_major) std::reverse(extents.begin(), extents.end());
      fail<ShapeError>(function, "the ", Traits::row_major ? "last" : "first",
                       " axis must be contiguous, but its stride is ", t.strides[Rank - 1],
                       "; the tensor is ", std::span<const Index>(extents));
    }
    return t;
  } else {
    return Strided<float, Rank>{};  // avoids further errors
  }
}

/// Extents and strides of axes that a tensor may lack. A negative axis has extent 1 and stride 0.
template <class T, std::size_t Rank>
struct AxisReader {
  const Strided<T, Rank>& tensor;

  Index extent(int axis) const {
    return axis < 0 ? 1 : tensor.extents[static_cast<std::size_t>(axis)];
  }
  Index stride(int axis) const {
    return axis < 0 ? 0 : tensor.strides[static_cast<std::size_t>(axis)];
  }
  Index last_extent() const { return tensor.extents[Rank - 1]; }
};

template <class T, std::size_t Rank>
HeadsView<T> heads_view(const Strided<T, Rank>& tensor, int batch, int seq, int heads) {
  const AxisReader<T, Rank> axis{tensor};
  return {tensor.data,        axis.extent(batch), axis.extent(seq), axis.extent(heads),
          axis.last_extent(), axis.stride(batch), axis.stride(seq), axis.stride(heads)};
}

template <class T, std::size_t Rank>
EmbeddingsView<T> embeddings_view(const Strided<T, Rank>& tensor, int batch, int seq) {
  const AxisReader<T, Rank> axis{tensor};
  return {tensor.data,        axis.extent(batch), axis.extent(seq),
          axis.last_extent(), axis.stride(batch), axis.stride(seq)};
}

template <class T, std::size_t Rank>
ScoresView<T> scores_view(const Strided<T, Rank>& tensor, int batch, int heads, int queries) {
  const AxisReader<T, Rank> axis{tensor};
  return {tensor.data,          axis.extent(batch),   axis.extent(heads),
          axis.extent(queries), axis.last_extent(),   axis.stride(batch),
          axis.stride(heads),   axis.stride(queries), 1};
}

template <class T>
MatrixView<T> matrix_view(const Strided<T, 2>& tensor, int rows) {
  const AxisReader<T, 2> axis{tensor};
  return {tensor.data, axis.extent(rows), axis.last_extent(), axis.stride(rows)};
}

template <class T>
LseView<T> lse_view(const Strided<T, 3>& tensor, int batch, int heads) {
  const AxisReader<T, 3> axis{tensor};
  return {tensor.data,        axis.extent(batch), axis.extent(heads),
          axis.last_extent(), axis.stride(batch), axis.stride(heads)};
}

}  // namespace detail

// An adapter: its name, the rank of its tensors, a check, and the function that makes the view,
// with the places of the view's axes, except the last one, among those of the tensor.
#define POSENC_DETAIL_ADAPTER(name, rank, check, make_view, ...)                \
  template <class X>                                                            \
  auto name(X&& x) {                                                            \
    check;                                                                      \
    return detail::make_view(detail::describe<X, rank>(#name, x), __VA_ARGS__); \
  }
// Indices are those of the adapter, then those of the adapter of the other order, named before
// them.
#define POSENC_DETAIL_ROW_MAJOR(name, rank, indices, other, other_indices, ...)                    \
  POSENC_DETAIL_ADAPTER(                                                                           \
      name, rank,                                                                                  \
      static_assert(                                                                               \
          detail::fits_order<X, rank, detail::StorageOrder::RowMajor>,                             \
          "posenc::" #name " takes row-major tensors x(" indices                                   \
          "), but this one is column-major, as Eigen's matrices and column vectors are. If it is " \
          "indexed x(" other_indices "), write " #other "(x). If it is indexed x(" indices         \
          "), its features are not contiguous: copy it to a row-major tensor (Eigen::RowMajor)"),  \
      __VA_ARGS__)
#define POSENC_DETAIL_COLUMN_MAJOR(name, rank, indices, other, other_indices, ...)    \
  POSENC_DETAIL_ADAPTER(                                                              \
      name, rank,                                                                     \
      static_assert(detail::fits_order<X, rank, detail::StorageOrder::ColumnMajor>,   \
                    "posenc::" #name " takes column-major tensors x(" indices         \
                    "), but this one is row-major. If it is indexed x(" other_indices \
                    "), write " #other "(x). If it is indexed x(" indices             \
                    "), its features are not contiguous: copy it to a "               \
                    "column-major tensor (Eigen::ColMajor)"),                         \
      __VA_ARGS__)
#define POSENC_DETAIL_ROW_MAJOR_ONLY(name, rank, ...)                                  \
  POSENC_DETAIL_ADAPTER(                                                               \
      name, rank,                                                                      \
      static_assert(detail::fits_order<X, rank, detail::StorageOrder::RowMajor>,       \
                    "posenc::" #name " takes row-major tensors only, but this one is " \
                    "column-major: make it row-major (Eigen::RowMajor)"),              \
      __VA_ARGS__)

// ---- heads and embeddings ----

/// Views a row-major x(b, s, h, d) as heads.
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR(bshd, 4, "b, s, h, d", dhsb, "d, h, s, b", heads_view, 0, 1, 2)
/// Views a column-major x(d, h, s, b) as heads.
///   Throws: ShapeError unless the first axis is contiguous
POSENC_DETAIL_COLUMN_MAJOR(dhsb, 4, "d, h, s, b", bshd, "b, s, h, d", heads_view, 0, 1, 2)

/// Views a row-major x(b, h, s, d) as heads.
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR(bhsd, 4, "b, h, s, d", dshb, "d, s, h, b", heads_view, 0, 2, 1)
/// Views a column-major x(d, s, h, b) as heads.
///   Throws: ShapeError unless the first axis is contiguous
POSENC_DETAIL_COLUMN_MAJOR(dshb, 4, "d, s, h, b", bhsd, "b, h, s, d", heads_view, 0, 2, 1)

/// Views a row-major x(s, h, d) as heads of one sequence; B = 1.
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR(shd, 3, "s, h, d", dhs, "d, h, s", heads_view, -1, 0, 1)
/// Views a column-major x(d, h, s) as heads of one sequence; B = 1.
///   Throws: ShapeError unless the first axis is contiguous
POSENC_DETAIL_COLUMN_MAJOR(dhs, 3, "d, h, s", shd, "s, h, d", heads_view, -1, 0, 1)

/// Views a row-major x(h, s, d) as heads of one sequence; B = 1.
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR(hsd, 3, "h, s, d", dsh, "d, s, h", heads_view, -1, 1, 0)
/// Views a column-major x(d, s, h) as heads of one sequence; B = 1.
///   Throws: ShapeError unless the first axis is contiguous
POSENC_DETAIL_COLUMN_MAJOR(dsh, 3, "d, s, h", hsd, "h, s, d", heads_view, -1, 1, 0)

/// Views a row-major x(s, d), one token per row, as one head of one sequence; B = H = 1.
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR(head_sd, 2, "s, d", head_ds, "d, s", heads_view, -1, 0, -1)
/// Views a column-major x(d, s), one token per column, as one head of one sequence; B = H = 1.
///   Throws: ShapeError unless the first axis is contiguous
POSENC_DETAIL_COLUMN_MAJOR(head_ds, 2, "d, s", head_sd, "s, d", heads_view, -1, 0, -1)

/// Views a row-major x(b, s, d) as embeddings.
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR(bsd, 3, "b, s, d", dsb, "d, s, b", embeddings_view, 0, 1)
/// Views a column-major x(d, s, b) as embeddings.
///   Throws: ShapeError unless the first axis is contiguous
POSENC_DETAIL_COLUMN_MAJOR(dsb, 3, "d, s, b", bsd, "b, s, d", embeddings_view, 0, 1)

/// Views a row-major x(s, d), one token per row, as embeddings of one sequence; B = 1.
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR(sd, 2, "s, d", ds, "d, s", embeddings_view, -1, 0)
/// Views a column-major x(d, s), one token per column, as embeddings of one sequence; B = 1.
///   Throws: ShapeError unless the first axis is contiguous
POSENC_DETAIL_COLUMN_MAJOR(ds, 2, "d, s", sd, "s, d", embeddings_view, -1, 0)

// ---- tables, scores, masks ----

/// Views a row-major matrix as a table [rows, cols].
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR_ONLY(table_view, 2, matrix_view, 0)
/// Views a row-major tensor [batch, heads, queries, keys] as scores, weights or a mask.
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR_ONLY(bhqk, 4, scores_view, 0, 1, 2)
/// Views a row-major tensor [heads, queries, keys] as scores, weights or a mask of all batch rows.
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR_ONLY(hqk, 3, scores_view, -1, 0, 1)
/// Views a row-major matrix [queries, keys] as scores, weights or a mask of all batch rows and
/// heads.
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR_ONLY(qk, 2, scores_view, -1, -1, 0)
/// Views a row-major matrix [batch, keys] as a padding mask of all heads and queries.
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR_ONLY(bk, 2, scores_view, 0, -1, -1)
/// Views a row-major tensor [batch, heads, queries] as one number per query and head: the
/// log-sum-exp (LSE) of scores.
///   Throws: ShapeError unless the last axis is contiguous
POSENC_DETAIL_ROW_MAJOR_ONLY(bhq, 3, lse_view, 0, 1)

POSENC_END
