// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/mul_add.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>

#include <algorithm>
#include <cmath>

// RMS norm of the rows of a dense matrix, and its backward pass. Sums are in double.
POSENC_BEGIN
namespace detail {

/// Returns the sum of term(sum, i) over n numbers, as sum_lanes chains that are added in pairs.
template <class AddTerm>
double sum_in_lanes(Index n, const AddTerm& add_term) noexcept {
  constexpr Index sum_lanes = 8;
  double sums[sum_lanes] = {};
  Index i = 0;
  for (; i + sum_lanes <= n; i += sum_lanes) {
    for (Index lane = 0; lane < sum_lanes; ++lane) sums[lane] = add_term(sums[lane], i + lane);
  }
  for (Index lane = 0; i + lane < n; ++lane) sums[lane] = add_term(sums[lane], i + lane);
  for (Index half = sum_lanes / 2; half > 0; half /= 2) {
    for (Index lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

/// RMS norm with a weight of `size` numbers: y = (weight + offset) * x / sqrt(mean(x^2) + epsilon).
template <class T>
class RmsNorm {
 public:
  RmsNorm(const T* weight, Index size, double offset, double epsilon) noexcept
      : weight_(weight), size_(size), offset_(offset), epsilon_(epsilon) {}

  /// Computes y from x, both [rows, size]. y may be x.
  template <Device D>
  void apply(const D& device, Index rows, const T* x, T* y) const {
    for_each_row(device, rows, [&](Index row) {
      const T* const from = x + row * size_;
      T* const to = y + row * size_;
      const double scale = inverse_rms(from);
      for (Index i = 0; i < size_; ++i) {
        to[i] = static_cast<T>(static_cast<double>(from[i]) * scale * factor(i));
      }
    });
  }

  /// Converts the gradient of y to that of x, in place, and adds that of the weight to
  /// `weight_gradient`, unless it is nullptr. `scales` is scratch memory for `rows` numbers.
  template <Device D>
  void backward(const D& device, Index rows, const T* x, T* grad, T* weight_gradient,
                double* scales) const {
    for_each_row(device, rows, [&](Index row) { scales[row] = inverse_rms(x + row * size_); });
    if (weight_gradient != nullptr) {
      const auto column_cost = static_cast<double>(rows);
      parallel_for_columns(device, size_, column_cost * sizeof(T), column_cost,
                           [&](Index first, Index count) {
                             add_weight_gradient(rows, x + first, grad + first, scales, count,
                                                 weight_gradient + first);
                           });
    }
    const auto numbers = static_cast<double>(size_);
    for_each_row(device, rows, [&](Index row) {
      const T* const from = x + row * size_;
      T* const g = grad + row * size_;
      const auto scaled_gradient = [&](Index i) { return static_cast<double>(g[i]) * factor(i); };
      const double dot = sum_in_lanes(size_, [&](double sum, Index i) {
        return mul_add(scaled_gradient(i), static_cast<double>(from[i]), sum);
      });
      const double scale = scales[row], shrink = scale * scale * dot / numbers;
      for (Index i = 0; i < size_; ++i) {
        const double difference =
            mul_add(-shrink, static_cast<double>(from[i]), scaled_gradient(i));
        g[i] = static_cast<T>(scale * difference);
      }
    });
  }

 private:
  double factor(Index i) const noexcept { return static_cast<double>(weight_[i]) + offset_; }

  double inverse_rms(const T* x) const noexcept {
    const double sum = sum_in_lanes(size_, [x](double previous, Index i) {
      const auto value = static_cast<double>(x[i]);
      return mul_add(value, value, previous);
    });
    return 1 / std::sqrt(sum / static_cast<double>(size_) + epsilon_);
  }

  /// Adds sums over all rows, in their order, for `count` columns.
  void add_weight_gradient(Index rows, const T* x, const T* grad, const double* scales, Index count,
                           T* weight_gradient) const noexcept {
    constexpr Index columns_per_pass = 16;
    for (Index first = 0; first < count; first += columns_per_pass) {
      const Index columns = (std::min)(columns_per_pass, count - first);
      double sums[columns_per_pass] = {};
      for (Index row = 0; row < rows; ++row) {
        const Index at = row * size_ + first;
        for (Index i = 0; i < columns; ++i) {
          const double normalised = static_cast<double>(x[at + i]) * scales[row];
          sums[i] = mul_add(static_cast<double>(grad[at + i]), normalised, sums[i]);
        }
      }
      for (Index i = 0; i < columns; ++i) {
        T& gradient = weight_gradient[first + i];
        gradient = static_cast<T>(static_cast<double>(gradient) + sums[i]);
      }
    }
  }

  template <Device D, class Work>
  void for_each_row(const D& device, Index rows, const Work& work) const {
    const auto numbers = static_cast<double>(size_);
    parallel_for(device, rows, numbers * sizeof(T), 2 * numbers, [&](Index row, Index end) {
      for (; row < end; ++row) work(row);
    });
  }

  const T* weight_;
  Index size_;
  double offset_, epsilon_;
};

}  // namespace detail
POSENC_END
