// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/detail/distances.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <span>
#include <type_traits>
#include <vector>

// Reduction of the gradient of a tile of scores to that of a bias's parameters: in double, and in
// an order that is independent of the device. Gradients of functions of query - key are first
// summed along the tile's diagonals.
POSENC_BEGIN
namespace detail {

/// Vector with inline capacity. Tiles are summed on a device's threads, where a failed allocation
/// ends the program.
template <class Number>
class SmallVector {
 public:
  static constexpr std::size_t inline_capacity = 1024;

  /// Constructs zeros.
  explicit SmallVector(std::size_t size) : heap_(size > inline_capacity ? size : 0) {
    if (size <= inline_capacity) std::fill_n(inline_, size, Number{0});
  }

  Number* data() noexcept { return heap_.empty() ? inline_ : heap_.data(); }
  const Number* data() const noexcept { return heap_.empty() ? inline_ : heap_.data(); }
  Number& operator[](std::size_t n) noexcept { return data()[n]; }
  const Number& operator[](std::size_t n) const noexcept { return data()[n]; }

 private:
  Number inline_[inline_capacity];
  std::vector<Number> heap_;
};

/// Returns `size` sums over the rows of a tile, computed by add_rows(sums, first row, count) in
/// parts of at least `rows_of_part` rows, unless there are fewer.
///   Bits:   independent of the number of threads
///   Throws: std::bad_alloc; on the calling thread only for more than SmallVector::inline_capacity
///           sums
template <Device D, class AddRows>
SmallVector<double> reduce_rows(const D& device, Index rows, Index rows_of_part, std::size_t size,
                                double cycles_of_row, const AddRows& add_rows) {
  constexpr std::size_t line = 8, max_numbers = 65536;
  const std::size_t stride = (size + line - 1) / line * line;
  const Index max_parts = std::clamp(static_cast<Index>(max_numbers / (std::max)(stride, line)),
                                     Index{1}, ReductionSplit::max_parts);
  const ReductionSplit parts(rows, std::clamp(rows / rows_of_part, Index{1}, max_parts));
  const auto add_part = [&](Index part, double* sums) {
    add_rows(sums, parts.begin(part), parts.begin(part + 1) - parts.begin(part));
  };
  SmallVector<double> total(size);
  if (parts.size() == 0) return total;
  const auto add_to_total = [&](Index part, const double* sums) {
    for (std::size_t n = 0; n < size; ++n) {
      total.data()[n] = part == 0 ? sums[n] : total.data()[n] + sums[n];
    }
  };
  if constexpr (std::is_same_v<D, CallingThread>) {
    SmallVector<double> part_sums(size);
    for (Index part = 0; part < parts.size(); ++part) {
      std::fill_n(part_sums.data(), size, 0.0);
      add_part(part, part_sums.data());
      add_to_total(part, part_sums.data());
    }
  } else {
    const auto offset_of_part = [stride](Index part) {
      return static_cast<std::size_t>(part) * stride;
    };
    std::vector<double> sums(offset_of_part(parts.size()));
    const double rows_per_part = static_cast<double>(rows) / static_cast<double>(parts.size());
    parallel_for(device, parts.size(), rows_per_part * cycles_of_row, rows_per_part * cycles_of_row,
                 [&](Index part, Index end) {
                   for (; part < end; ++part) add_part(part, sums.data() + offset_of_part(part));
                 });
    for (Index part = 0; part < parts.size(); ++part) {
      add_to_total(part, sums.data() + offset_of_part(part));
    }
  }
  return total;
}

/// Limits of a block of the gradient. It has more queries than blocks of scores, so that fewer
/// distances are evaluated.
inline constexpr Index max_sum_queries = 256, max_sum_keys = 512;
static_assert(pad_distances(max_sum_queries - 1 + max_sum_keys) <= max_block_distances);

/// Calls visit(from, to, sums, count), where sums[u] is the sum of grad over the scores at the
/// distance from - to[u], in double and in the order of the queries. `count` is a multiple of
/// distance_padding, at most max_block_distances. Distances that belong to no score have a sum of
/// 0.
template <std::floating_point Real, class Visit>
void for_each_distance_sum(std::span<const double> queries, std::span<const double> keys,
                           const MatrixView<const Real>& grad, const Visit& visit) {
  alignas(64) double sums[static_cast<std::size_t>(max_block_distances)];
  double padded_keys[static_cast<std::size_t>(
      max_sum_keys)];  // padded copy of the keys, for queries that
                       // are not consecutive
  const auto rows = static_cast<Index>(queries.size()), columns = static_cast<Index>(keys.size());
  for (Index j = 0; j < columns; j += max_sum_keys) {
    const Index n = (std::min)(max_sum_keys, columns - j);
    const auto block = keys.subspan(static_cast<std::size_t>(j), static_cast<std::size_t>(n));
    const bool is_consecutive = rows > 1 && are_consecutive(block);
    std::fill(std::copy(block.begin(), block.end(), padded_keys), std::end(padded_keys), 0.0);
    for (Index i = 0, m = 1; i < rows; i += m) {
      const auto first = static_cast<std::size_t>(i);
      m = is_consecutive ? count_leading_consecutive(queries.subspan(first), max_sum_queries) : 1;
      const Index count = pad_distances(m - 1 + n);
      std::fill_n(sums, count, 0.0);
      // Row r of the block begins at m - 1 - r.
      for (Index r = 0; r < m; ++r) {
        const Real* const row = grad.row(i + r) + j;
        double* const row_sums = sums + (m - 1 - r);
        for (Index k = 0; k < n; ++k) row_sums[k] += static_cast<double>(row[k]);
      }
      if (m > 1) {
        visit(queries[first + static_cast<std::size_t>(m - 1)] - block[0], iota_table.begin(),
              static_cast<const double*>(sums), count);
      } else {
        visit(queries[first], static_cast<const double*>(padded_keys),
              static_cast<const double*>(sums), count);
      }
    }
  }
}

/// Returns `size` sums over the distances of a tile, computed by add(sums, from, to, grads, count)
/// with the arguments of for_each_distance_sum().
///   Bits:   independent of the number of threads
///   Throws: as reduce_rows()
template <Device D, std::floating_point Real, class Add>
SmallVector<double> reduce_distances(const D& device, std::span<const double> queries,
                                     std::span<const double> keys,
                                     const MatrixView<const Real>& grad, std::size_t size,
                                     const Add& add) {
  const double cycles_of_row = 1.0 * static_cast<double>(keys.size());
  return reduce_rows(
      device, grad.rows, max_sum_queries, size, cycles_of_row,
      [&](double* sums, Index first, Index count) {
        const MatrixView<const Real> part{grad.row(first), count, grad.cols, grad.row_stride};
        for_each_distance_sum(
            queries.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count)), keys,
            part, [&](double from, const double* to, const double* grads, Index number) {
              add(sums, from, to, grads, number);
            });
      });
}

/// Throws ShapeError unless the gradient of a table has the table's shape.
template <class Gradient>
void check_table_gradient(const char* function, const MatrixView<Gradient>& grad_table,
                          const std::array<Index, 2>& table) {
  check_extents(function, "grad_table", grad_table);
  if (grad_table.extents() != table) {
    fail<ShapeError>(function, "grad_table must have the table's shape ", table, " but is ",
                     grad_table.extents());
  }
  check_output(function, "grad_table", grad_table);
}

/// Adds the sum of each row, rounded once, to grad_table[row, head].
template <class Gradient>
void add_sums(const SmallVector<double>& sums, Index head,
              const MatrixView<Gradient>& grad_table) noexcept {
  for (Index row = 0; row < grad_table.rows; ++row) {
    const double sum = sums[static_cast<std::size_t>(row)];
    if (sum != 0) grad_table.row(row)[head] += static_cast<Gradient>(sum);
  }
}

}  // namespace detail
POSENC_END
