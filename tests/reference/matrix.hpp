// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace reference {

/// Row-major table of doubles with checked access; the only container of the reference code.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::vector<double> values;

  Matrix() = default;

  Matrix(std::int64_t rows_, std::int64_t cols_)
      : rows(rows_), cols(cols_), values(static_cast<std::size_t>(rows_ * cols_), 0.0) {}

  Matrix(std::int64_t rows_, std::int64_t cols_, std::vector<double> values_)
      : rows(rows_), cols(cols_), values(std::move(values_)) {
    if (static_cast<std::int64_t>(values.size()) != rows * cols) {
      throw std::invalid_argument("Matrix: the number of values is not rows * cols");
    }
  }

  double& operator()(std::int64_t r, std::int64_t c) { return values[position(r, c)]; }
  double operator()(std::int64_t r, std::int64_t c) const { return values[position(r, c)]; }

  std::vector<double> row(std::int64_t r) const { return row_slice(r, 0, cols); }

  std::vector<double> row_slice(std::int64_t r, std::int64_t first, std::int64_t count) const {
    std::vector<double> slice;
    for (std::int64_t c = first; c < first + count; ++c) slice.push_back((*this)(r, c));
    return slice;
  }

  void set_row(std::int64_t r, const std::vector<double>& row) {
    if (static_cast<std::int64_t>(row.size()) != cols) {
      throw std::invalid_argument("Matrix: the row has another width");
    }
    for (std::int64_t c = 0; c < cols; ++c) (*this)(r, c) = row[static_cast<std::size_t>(c)];
  }

 private:
  std::size_t position(std::int64_t r, std::int64_t c) const {
    if (r < 0 || r >= rows || c < 0 || c >= cols) {
      throw std::out_of_range("Matrix: (" + std::to_string(r) + ", " + std::to_string(c) +
                              ") is outside of " + std::to_string(rows) + " x " +
                              std::to_string(cols));
    }
    return static_cast<std::size_t>(r * cols + c);
  }
};

}  // namespace reference
