// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <span>
#include <type_traits>

// What biases made from positions do with a tile of scores.
POSENC_BEGIN
namespace detail {

/// The head that a tile is of, and what messages call those that there are: "the 8 slopes".
struct HeadOfBias {
  Index head, heads;
  const char* whose = "the ";
  const char* counted = " heads";
};

/// Says what is wrong with a tile, if anything is.
template <class Real>
POSENC_NOINLINE void check_odd_tile(const char* function, const HeadOfBias& of, std::size_t queries,
                                    std::size_t keys, const MatrixView<Real>& tile) {
  check_extents(function, "the tile", tile);
  if (of.head < 0 || of.head >= of.heads) {
    fail<ShapeError>(function, "head must lie within ", of.whose, of.heads, of.counted, " but is ",
                     of.head);
  }
  if (tile.rows != static_cast<Index>(queries) || tile.cols != static_cast<Index>(keys)) {
    fail<ShapeError>(function, "the tile ", tile.extents(), " must be queries by keys, ", queries,
                     " by ", keys);
  }
  if constexpr (!std::is_const_v<Real>) check_output(function, "tile", tile);
}

/// What every bias asks of its tile of scores, and of the gradient of one, which is read.
///   Throws: ShapeError
template <class Real>
POSENC_ALWAYS_INLINE void check_tile(const char* function, const HeadOfBias& of,
                                     std::span<const double> query_positions,
                                     std::span<const double> key_positions,
                                     const MatrixView<Real>& tile) {
  // In place, as all checks of a tile of few scores would take longer than its scores.
  const bool plain = nests(tile) && of.head >= 0 && of.head < of.heads &&
                     tile.rows == static_cast<Index>(query_positions.size()) &&
                     tile.cols == static_cast<Index>(key_positions.size());
  if (!plain) check_odd_tile(function, of, query_positions.size(), key_positions.size(), tile);
}

}  // namespace detail
POSENC_END
