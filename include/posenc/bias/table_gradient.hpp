// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/arithmetic.hpp>
#include <posenc/core/detail/move_reset_index.hpp>
#include <posenc/core/error.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <vector>

POSENC_BEGIN

/// Gradient of a learned table of biases [rows, cols], in double and in memory of its own;
/// zero_gradient() of T5Bias and WindowBias returns one. Alternatively add_gradient() writes to a
/// view of the caller's memory.
class TableGradient {
 public:
  /// Constructs a table without rows and columns.
  TableGradient() = default;
  /// Constructs zeros.
  ///   Throws: ShapeError, std::bad_alloc
  TableGradient(Index rows, Index cols) : rows_(rows), cols_(cols) {
    const auto size = detail::checked_mul({rows, cols});
    if (!size || *size > (Index{1} << 53)) {
      detail::fail<ShapeError>("TableGradient", "rows (", rows, ") and cols (", cols,
                               ") must not be negative, and their product must fit into memory");
    }
    values_.resize(static_cast<std::size_t>(*size));
  }

  /// Returns a view of the table, [rows, cols].
  MatrixView<double> view() noexcept { return {values_.data(), Index{rows_}, Index{cols_}}; }
  /// Returns a read-only view of the table, [rows, cols].
  MatrixView<const double> view() const noexcept {
    return {values_.data(), Index{rows_}, Index{cols_}};
  }

  /// Adds the gradient of other scores.
  ///   Throws: ShapeError
  TableGradient& operator+=(const TableGradient& other) {
    if (other.view().extents() != view().extents()) {
      detail::fail<ShapeError>("TableGradient", "the gradient to add must be ", view().extents(),
                               " but is ", other.view().extents());
    }
    detail::add_values(other.values_.data(), values_.data(), static_cast<Index>(values_.size()));
    return *this;
  }

 private:
  detail::MoveResetIndex rows_ = 0, cols_ = 0;
  std::vector<double> values_;
};

namespace detail {

/// Returns the view of a gradient argument of add_gradient(): a MatrixView, or a TableGradient.
template <WritableTile Gradient>
MatrixView<Gradient> gradient_view(const MatrixView<Gradient>& grad_table) noexcept {
  return grad_table;
}
inline MatrixView<double> gradient_view(TableGradient& gradient) noexcept {
  return gradient.view();
}

template <class Gradient>
concept GradientOfTable = requires(Gradient& gradient) {
  gradient_view(gradient);
};

}  // namespace detail

POSENC_END
