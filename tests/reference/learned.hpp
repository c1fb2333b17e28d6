// SPDX-License-Identifier: MIT
#pragma once

#include "matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace reference {

/// Returns the looked-up rows: row t is row ids[t] + row_offset of the table. Throws
/// std::out_of_range.
inline Matrix learned_lookup(const Matrix& table, const std::vector<std::int64_t>& ids,
                             std::int64_t row_offset = 0) {
  Matrix rows(static_cast<std::int64_t>(ids.size()), table.cols);
  for (std::int64_t t = 0; t < rows.rows; ++t) {
    rows.set_row(t, table.row(ids[static_cast<std::size_t>(t)] + row_offset));
  }
  return rows;
}

/// Returns the gradient of the table: each row of dy is added to the row it was read from, in the
/// order of t.
///
/// The table row padding_index gets no gradient.
inline Matrix learned_gradient(std::int64_t table_rows, const Matrix& dy,
                               const std::vector<std::int64_t>& ids, std::int64_t row_offset = 0,
                               std::optional<std::int64_t> padding_index = std::nullopt) {
  Matrix gradient(table_rows, dy.cols);
  for (std::int64_t t = 0; t < dy.rows; ++t) {
    const std::int64_t row = ids[static_cast<std::size_t>(t)] + row_offset;
    if (row == padding_index) continue;
    for (std::int64_t c = 0; c < dy.cols; ++c) gradient(row, c) += dy(t, c);
  }
  return gradient;
}

}  // namespace reference
