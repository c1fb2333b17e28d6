// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/detail/check_output.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <span>
#include <type_traits>

// Checks of tiles of scores, shared by biases that are computed from positions.
POSENC_BEGIN
namespace detail {

/// Throws ShapeError if anything is wrong with a tile, and names it.
template <class Real>
POSENC_NOINLINE void report_tile_error(const char* function, Index head, Index heads,
                                       std::size_t queries, std::size_t keys,
                                       const MatrixView<Real>& tile) {
  check_extents(function, "the tile", tile);
  if (head < 0 || head >= heads) {
    fail<ShapeError>(function, "head must lie within the ", heads, " heads but is ", head);
  }
  if (tile.rows != static_cast<Index>(queries) || tile.cols != static_cast<Index>(keys)) {
    fail<ShapeError>(function, "the tile ", tile.extents(), " must be queries by keys, ", queries,
                     " by ", keys);
  }
  if constexpr (!std::is_const_v<Real>) check_output(function, "tile", tile);
}

/// Checks the tile of scores of a bias, or the gradient of one, which is read only.
///   Throws: ShapeError
template <class Real>
POSENC_ALWAYS_INLINE void check_tile(const char* function, Index head, Index heads,
                                     std::span<const double> query_positions,
                                     std::span<const double> key_positions,
                                     const MatrixView<Real>& tile) {
  // Inlined fast path, because all checks of a tile of few scores would take longer than its
  // scores.
  const bool plain = passes_fast_checks(tile) && head >= 0 && head < heads &&
                     tile.rows == static_cast<Index>(query_positions.size()) &&
                     tile.cols == static_cast<Index>(key_positions.size());
  if (!plain)
    report_tile_error(function, head, heads, query_positions.size(), key_positions.size(), tile);
}

}  // namespace detail
POSENC_END
