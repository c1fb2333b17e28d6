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
#include <type_traits>
#include <vector>

// What biases made from positions do with a tile of scores.
POSENC_BEGIN
namespace detail {

/// The head that a tile is of, and what messages call those that there are: "the 8 slopes".
struct HeadOfBias {
  Index head, heads;
  const char* whose = "the ";
  const char* counted = " heads";
};

/// What every bias asks of its tile of scores, and of the gradient of one, which is read.
///   Throws: ShapeError
template <class Real>
void check_tile(const char* function, const HeadOfBias& of, std::span<const double> query_positions,
                std::span<const double> key_positions, const MatrixView<Real>& tile) {
  check_extents(function, "the tile", tile);
  if (of.head < 0 || of.head >= of.heads) {
    fail<ShapeError>(function, "head must lie within ", of.whose, of.heads, of.counted, " but is ",
                     of.head);
  }
  if (tile.rows != static_cast<Index>(query_positions.size()) ||
      tile.cols != static_cast<Index>(key_positions.size())) {
    fail<ShapeError>(function, "the tile ", tile.extents(), " must be queries by keys, ",
                     query_positions.size(), " by ", key_positions.size());
  }
  if constexpr (!std::is_const_v<Real>) check_output(function, "tile", tile);
}

/// Numbers on the stack where they are few: tiles are added up on a device's threads, where a call that finds no
/// memory ends the program.
template <class Number>
class FewNumbers {
 public:
  static constexpr std::size_t few = 1024;

  /// Zeros.
  explicit FewNumbers(std::size_t size) : many_(size > few ? size : 0) {
    if (size <= few) std::fill_n(few_, size, Number{0});
  }

  Number* data() noexcept { return many_.empty() ? few_ : many_.data(); }
  const Number* data() const noexcept { return many_.empty() ? few_ : many_.data(); }
  Number& operator[](std::size_t n) noexcept { return data()[n]; }
  const Number& operator[](std::size_t n) const noexcept { return data()[n]; }

 private:
  Number few_[few];
  std::vector<Number> many_;
};

/// `size` sums over the cells of a tile, row by row: add(sums, i, j, query i, key j). The same bits with
/// any number of threads.
///   Throws: std::bad_alloc; on the calling thread only of more than FewNumbers::few sums
template <Device D, class Add>
FewNumbers<double> sums_over_cells(const D& device, std::span<const double> query_positions,
                                   std::span<const double> key_positions, std::size_t size,
                                   double cycles, const Add& add) {
  constexpr std::size_t line = 8, room = 65536;
  const std::size_t stride = (size + line - 1) / line * line;
  const PartsOfSum parts(
      static_cast<Index>(query_positions.size()),
      std::clamp(static_cast<Index>(room / (std::max)(stride, line)), Index{1}, PartsOfSum::most));
  const auto add_part = [&](Index part, double* sums) {
    for (Index i = parts.begin(part); i < parts.begin(part + 1); ++i) {
      const double query = query_positions[static_cast<std::size_t>(i)];
      for (std::size_t j = 0; j < key_positions.size(); ++j) {
        add(sums, i, static_cast<Index>(j), query, key_positions[j]);
      }
    }
  };
  FewNumbers<double> total(size);
  if (parts.size() == 0) return total;
  const auto add_to_total = [&](Index part, const double* sums) {
    for (std::size_t n = 0; n < size; ++n) {
      total.data()[n] = part == 0 ? sums[n] : total.data()[n] + sums[n];
    }
  };
  if constexpr (std::is_same_v<D, CallingThread>) {
    FewNumbers<double> of_part(size);
    for (Index part = 0; part < parts.size(); ++part) {
      std::fill_n(of_part.data(), size, 0.0);
      add_part(part, of_part.data());
      add_to_total(part, of_part.data());
    }
  } else {
    const auto of_part = [stride](Index part) { return static_cast<std::size_t>(part) * stride; };
    std::vector<double> sums(of_part(parts.size()));
    const double cells = static_cast<double>(query_positions.size()) *
                         static_cast<double>(key_positions.size()) /
                         static_cast<double>(parts.size());
    parallel_for(device, parts.size(), cells * sizeof(float), cells * cycles,
                 [&](Index part, Index end) {
                   for (; part < end; ++part) add_part(part, sums.data() + of_part(part));
                 });
    for (Index part = 0; part < parts.size(); ++part) {
      add_to_total(part, sums.data() + of_part(part));
    }
  }
  return total;
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
void add_sums(const FewNumbers<double>& sums, Index head,
              const MatrixView<Gradient>& grad_table) noexcept {
  for (Index row = 0; row < grad_table.rows; ++row) {
    const double sum = sums[static_cast<std::size_t>(row)];
    if (sum != 0) grad_table.row(row)[head] += static_cast<Gradient>(sum);
  }
}

}  // namespace detail
POSENC_END
