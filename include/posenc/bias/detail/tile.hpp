// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/detail/parallel_for.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

// What biases made from positions do with a tile of scores.
POSENC_BEGIN
namespace detail {

/// `whose` and `counted` stand around the number of heads in a message: "the 8 slopes".
template <class Real>
void check_tile(const char* function, Index head, Index heads, const char* whose,
                const char* counted, std::span<const double> query_positions,
                std::span<const double> key_positions, const MatrixView<Real>& tile) {
  check_extents(function, "the tile", tile);
  if (head < 0 || head >= heads) {
    fail<ShapeError>(function, "head must lie within ", whose, heads, counted, " but is ", head);
  }
  if (tile.rows != static_cast<Index>(query_positions.size()) ||
      tile.cols != static_cast<Index>(key_positions.size())) {
    fail<ShapeError>(function, "the tile ", tile.extents(), " must be queries by keys, ",
                     query_positions.size(), " by ", key_positions.size());
  }
}

/// `size` sums over the cells of a tile, row by row: add(sums, i, j, query i, key j). The same bits with
/// any number of threads.
template <Device D, class Add>
std::vector<double> sums_over_cells(const D& device, std::span<const double> query_positions,
                                    std::span<const double> key_positions, std::size_t size,
                                    double cycles, const Add& add) {
  constexpr std::size_t line = 8, room = 65536;
  const std::size_t stride = (size + line - 1) / line * line;
  const PartsOfSum parts(
      static_cast<Index>(query_positions.size()),
      std::clamp(static_cast<Index>(room / (std::max)(stride, line)), Index{1}, PartsOfSum::most));
  const auto of_part = [stride](Index part) { return static_cast<std::size_t>(part) * stride; };
  std::vector<double> sums(of_part((std::max)(parts.size(), Index{1})));
  if (parts.size() > 0) {
    const double cells = static_cast<double>(query_positions.size()) *
                         static_cast<double>(key_positions.size()) /
                         static_cast<double>(parts.size());
    parallel_for(device, parts.size(), cells * sizeof(float), cells * cycles,
                 [&](Index part, Index part_end) {
                   for (; part < part_end; ++part) {
                     for (Index i = parts.begin(part); i < parts.begin(part + 1); ++i) {
                       const double query = query_positions[static_cast<std::size_t>(i)];
                       for (std::size_t j = 0; j < key_positions.size(); ++j) {
                         add(sums.data() + of_part(part), i, static_cast<Index>(j), query,
                             key_positions[j]);
                       }
                     }
                   }
                 });
  }
  for (Index part = 1; part < parts.size(); ++part) {
    for (std::size_t n = 0; n < size; ++n) sums[n] += sums[of_part(part) + n];
  }
  sums.resize(size);
  return sums;
}

/// The gradient of a table has the table's shape.
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

/// grad_table[row, head] += the sum of each row, rounded once.
template <class Gradient>
void add_sums(const std::vector<double>& sums, Index head,
              const MatrixView<Gradient>& grad_table) noexcept {
  for (Index row = 0; row < grad_table.rows; ++row) {
    const double sum = sums[static_cast<std::size_t>(row)];
    if (sum != 0) grad_table.row(row)[head] += static_cast<Gradient>(sum);
  }
}

}  // namespace detail
POSENC_END
