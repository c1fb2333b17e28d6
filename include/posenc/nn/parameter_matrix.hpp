// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/detail/move_reset_index.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <utility>

POSENC_BEGIN

namespace detail {
/// Matrix type with rows(), cols() and coefficients m(i, j), as Eigen's matrices have them.
template <class M, class T>
concept MatrixOf = requires(const M& matrix, Index i) {
  { matrix.rows() } -> std::convertible_to<Index>;
  { matrix.cols() } -> std::convertible_to<Index>;
  { matrix(i, i) } -> std::convertible_to<T>;
};
}  // namespace detail

/// Parameters [rows, cols], row-major and dense; owns its memory. It is not an Eigen matrix,
/// because Eigen's memory must be freed by code with the flags of the code that allocated it. To
/// use it as one:
///   Eigen::Map<Eigen::Matrix<T, -1, -1, Eigen::RowMajor>> map(w.data(), w.rows(), w.cols());
template <std::floating_point T>
class ParameterMatrix {
 public:
  /// Element type, by the name that Eigen's matrices use.
  using Scalar = T;

  /// Constructs an empty matrix.
  ParameterMatrix() = default;
  /// Constructs a matrix of zeros.
  ///   Throws: ShapeError, std::bad_alloc
  ParameterMatrix(Index rows, Index cols) { resize(rows, cols); }
  /// Copies an Eigen matrix or an expression with coefficients (evaluate a product first).
  ///   Throws: std::bad_alloc
  template <detail::MatrixOf<T> M>
  requires(!std::same_as<M, ParameterMatrix>) ParameterMatrix(const M& matrix) { *this = matrix; }
  /// Takes over shape and coefficients of an Eigen matrix or expression. It may read this matrix.
  ///   Throws: std::bad_alloc; the matrix is unchanged then
  template <detail::MatrixOf<T> M>
  requires(!std::same_as<M, ParameterMatrix>) ParameterMatrix& operator=(const M& matrix) {
    ParameterMatrix copy(static_cast<Index>(matrix.rows()), static_cast<Index>(matrix.cols()));
    for (Index i = 0; i < copy.rows_; ++i) {
      for (Index j = 0; j < copy.cols_; ++j) copy(i, j) = matrix(i, j);
    }
    return *this = std::move(copy);
  }

  /// Returns the number of rows.
  Index rows() const noexcept { return rows_; }
  /// Returns the number of columns.
  Index cols() const noexcept { return cols_; }
  /// Returns the number of elements.
  Index size() const noexcept { return rows_ * cols_; }
  /// Returns the row-major elements, aligned to a cache line.
  T* data() noexcept { return values_.data(); }
  /// Overload of data() for a const matrix.
  const T* data() const noexcept { return values_.data(); }

  /// Returns the element in row i and column j, which must exist.
  T& operator()(Index i, Index j) noexcept { return data()[i * cols_ + j]; }
  /// Overload of operator()(i, j) for a const matrix.
  const T& operator()(Index i, Index j) const noexcept { return data()[i * cols_ + j]; }
  /// Returns element i in memory order; for a bias, which has one row, that of output i.
  T& operator()(Index i) noexcept { return data()[i]; }
  /// Overload of operator()(i) for a const matrix.
  const T& operator()(Index i) const noexcept { return data()[i]; }

  /// Sets all elements to one value.
  void fill(T value) noexcept { std::fill_n(data(), size(), value); }
  /// Discards the contents and becomes a zero matrix of another shape.
  ///   Throws: ShapeError, std::bad_alloc; the matrix is unchanged then
  void resize(Index rows, Index cols) {
    const auto size = detail::checked_mul({rows, cols, static_cast<Index>(sizeof(T))});
    if (!size) {
      detail::fail<ShapeError>("ParameterMatrix", "rows (", rows, ") and cols (", cols,
                               ") must not be negative, and their product must fit into memory");
    }
    detail::AlignedVector<T> zeros(static_cast<std::size_t>(rows * cols), T{0});
    values_.swap(zeros);
    rows_ = rows;
    cols_ = cols;
  }

  /// Returns a view of the matrix, valid while the matrix keeps its memory.
  MatrixView<T> view() noexcept { return {data(), rows(), cols(), cols()}; }
  /// Overload of view() for a const matrix.
  MatrixView<const T> view() const noexcept { return {data(), rows(), cols(), cols()}; }

  /// Compares as numbers: 0 == -0, and NaN equals nothing.
  friend bool operator==(const ParameterMatrix& a, const ParameterMatrix& b) noexcept {
    return a.rows_ == b.rows_ && a.cols_ == b.cols_ &&
           std::equal(a.data(), a.data() + a.size(), b.data());
  }

 private:
  detail::AlignedVector<T> values_;
  detail::MoveResetIndex rows_ = 0, cols_ = 0;
};

POSENC_END
