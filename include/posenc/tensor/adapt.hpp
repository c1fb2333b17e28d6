// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/tensor/view.hpp>

#include <array>
#include <type_traits>

// Adapters from tensors to views, named after the order of the axes in memory. A row-major tensor
// reads as its name says, bshd(x) takes x(b, s, h, d); a column-major one is its mirror image, x(d,
// h, s, b). Nothing is copied. Rank and element type are checked at compile time.
POSENC_BEGIN

/// A tensor's memory with its axes in row-major reading order.
template <class T, std::size_t Rank>
struct Strided {
  using Element = T;
  T* data;
  std::array<Index, Rank> extents;
  std::array<Index, Rank> strides;
};

/// Tells how to read a tensor type: `static constexpr std::size_t rank` and `static Strided<T,
/// rank> describe(x)`. Specialised for Eigen's dense matrices, maps and blocks here, for
/// Eigen::Tensor and TensorMap in tensor/eigen.hpp; users may add their own.
template <class X>
struct TensorTraits;

template <class X>
concept MatrixLike = requires(X& x) {
  x.data();
  x.rows();
  x.cols();
  x.innerStride();
  x.outerStride();
  X::IsRowMajor;
};

template <MatrixLike X>
struct TensorTraits<X> {
  static constexpr std::size_t rank = 2;

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

template <std::size_t Rank, class X>
auto describe(const char* function, X& x) {
  using Traits = TensorTraits<std::remove_cv_t<X>>;
  static_assert(
      requires { Traits::rank; },
      "posenc: this type is not a tensor that posenc can read. Include posenc/tensor/eigen.hpp for "
      "Eigen::Tensor, evaluate Eigen expressions first, or specialise posenc::TensorTraits.");
  static_assert(Traits::rank == Rank,
                "posenc: the tensor's rank does not match the letters of the axis order: bshd() "
                "takes a rank-4 tensor, bsd() a rank-3 one, sd() a matrix.");
  const auto t = Traits::describe(x);
  if (t.strides[Rank - 1] != 1 && t.extents[Rank - 1] > 1) {
    fail<ShapeError>(function, "the last axis must be contiguous, but its stride is ",
                     t.strides[Rank - 1], "; the tensor is ", std::span<const Index>(t.extents));
  }
  return t;
}

template <class T, std::size_t Rank>
struct AxisReader {
  const Strided<T, Rank>& tensor;

  // A negative axis is one that the tensor does not have.
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

}  // namespace detail

/// Heads from memory order [batch, seq, heads, dim].
template <class X>
auto bshd(X&& x) {
  return detail::heads_view(detail::describe<4>("bshd", x), 0, 1, 2);
}

/// Heads from memory order [batch, heads, seq, dim].
template <class X>
auto bhsd(X&& x) {
  return detail::heads_view(detail::describe<4>("bhsd", x), 0, 2, 1);
}

/// Heads of one sequence from memory order [seq, heads, dim]; B = 1.
template <class X>
auto shd(X&& x) {
  return detail::heads_view(detail::describe<3>("shd", x), -1, 0, 1);
}

/// Heads of one sequence from memory order [heads, seq, dim]; B = 1.
template <class X>
auto hsd(X&& x) {
  return detail::heads_view(detail::describe<3>("hsd", x), -1, 1, 0);
}

/// Embeddings [batch, seq, dim].
template <class X>
auto bsd(X&& x) {
  return detail::embeddings_view(detail::describe<3>("bsd", x), 0, 1);
}

/// Embeddings of one sequence [seq, dim]: a row-major Matrix with a token a row, or a column-major
/// one with a token a column; B = 1.
template <class X>
auto sd(X&& x) {
  return detail::embeddings_view(detail::describe<2>("sd", x), -1, 0);
}

/// A table [rows, cols]: a row-major Matrix as it stands, a column-major one as its mirror image.
template <class X>
auto table_view(X&& x) {
  const auto t = detail::describe<2>("table_view", x);
  return MatrixView<typename decltype(t)::Element>{t.data, t.extents[0], t.extents[1],
                                                   t.strides[0]};
}

/// Scores, weights or a mask [batch, heads, queries, keys].
template <class X>
auto bhqk(X&& x) {
  return detail::scores_view(detail::describe<4>("bhqk", x), 0, 1, 2);
}

/// The same for all batch rows: [heads, queries, keys].
template <class X>
auto hqk(X&& x) {
  return detail::scores_view(detail::describe<3>("hqk", x), -1, 0, 1);
}

/// The same for all batch rows and heads: [queries, keys].
template <class X>
auto qk(X&& x) {
  return detail::scores_view(detail::describe<2>("qk", x), -1, -1, 0);
}

/// The same for all heads and queries, a padding mask: [batch, keys].
template <class X>
auto bk(X&& x) {
  return detail::scores_view(detail::describe<2>("bk", x), 0, -1, -1);
}

/// One number a query and head, the log-sum-exp of scores: [batch, heads, queries].
template <class X>
auto bhq(X&& x) {
  const auto t = detail::describe<3>("bhq", x);
  return LseView<typename decltype(t)::Element>{t.data,       t.extents[0], t.extents[1],
                                                t.extents[2], t.strides[0], t.strides[1]};
}

POSENC_END
