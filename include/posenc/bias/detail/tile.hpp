// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/view.hpp>

#include <span>

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

}  // namespace detail
POSENC_END
