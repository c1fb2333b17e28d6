// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/detail/consecutive.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <span>

// Tiles of biases that are functions of query - key. Where positions are those of neighbouring
// tokens, a tile of m x n scores has m + n - 1 distances, not m n.
POSENC_BEGIN
namespace detail {

/// Distances come in groups of so many, whatever the tier.
inline constexpr Index distance_group = 16;

constexpr Index whole_groups(Index count) noexcept {
  return (count + distance_group - 1) / distance_group * distance_group;
}

/// How many positions from the first on are whole numbers that go up by one; at most `most`.
inline Index leading_run(std::span<const double> positions, Index most) noexcept {
  most = (std::min)(most, static_cast<Index>(positions.size()));
  if (!whole(positions[0])) return 1;
  Index count = 1;
  for (std::size_t i = 1; count < most && positions[i] - positions[i - 1] == 1; ++i) ++count;
  return count;
}

/// Blocks of a tile, and what they have of distances.
inline constexpr Index block_queries = 96, block_keys = 1024;
inline constexpr Index block_distances = whole_groups(block_queries - 1 + block_keys);

/// 0, 1, 2, ...
inline constexpr auto whole_numbers = [] {
  std::array<double, block_distances> result{};
  for (std::size_t u = 0; u < result.size(); ++u) result[u] = static_cast<double>(u);
  return result;
}();

/// Calls evaluate(from, to, values, count), where values[u], a number or a few, is to be that of the distance
/// from - to[u] of query and key, count whole groups of them, at most block_distances, some of which
/// belong to no score; and for each row of a block of the tile use(i, j, n, values) with the values
/// of query i and keys j .. j + n - 1. What lies behind those, up to whole_groups(n), may be read.
///   Bits: a value depends on its distance alone, if evaluate's do
template <class Value, class Evaluate, class Use>
void for_each_row_of_distances(std::span<const double> queries, std::span<const double> keys,
                               const Evaluate& evaluate, const Use& use) {
  alignas(64) Value values[static_cast<std::size_t>(block_distances)];
  const auto rows = static_cast<Index>(queries.size()), columns = static_cast<Index>(keys.size());
  for (Index j = 0; j < columns; j += block_keys) {
    const Index n = (std::min)(block_keys, columns - j);
    const auto block = keys.subspan(static_cast<std::size_t>(j), static_cast<std::size_t>(n));
    const bool steady = rows > 1 && consecutive(block);
    for (Index i = 0, m = 1; i < rows; i += m) {
      const auto first = static_cast<std::size_t>(i);
      m = steady ? leading_run(queries.subspan(first), block_queries) : 1;
      if (m > 1) {
        // Row r of the block begins at m - 1 - r.
        const double farthest = queries[first + static_cast<std::size_t>(m - 1)] - block[0];
        evaluate(farthest, whole_numbers.data(), &values[0], whole_groups(m - 1 + whole_groups(n)));
      } else {
        const Index whole = n / distance_group * distance_group;
        if (whole > 0) evaluate(queries[first], block.data(), &values[0], whole);
        if (whole < n) {
          double last[distance_group] = {};
          std::copy(block.begin() + whole, block.end(), last);
          evaluate(queries[first], &last[0], values + whole, distance_group);
        }
      }
      for (Index r = 0; r < m; ++r)
        use(i + r, j, n, static_cast<const Value*>(values) + (m - 1 - r));
    }
  }
}

/// tile(i, j) += what evaluate, as above, says of the distance of query i and key j.
template <std::floating_point Real, class Evaluate>
void add_of_distances(std::span<const double> queries, std::span<const double> keys,
                      const Evaluate& evaluate, MatrixView<Real> tile) {
  for_each_row_of_distances<Real>(queries, keys, evaluate,
                                  [&](Index i, Index j, Index n, const Real* values) {
                                    add_values(values, tile.row(i) + j, n);
                                  });
}

/// values[u] = what evaluate, as above, says of the distance farthest - u.
template <std::floating_point Real, class Evaluate>
void write_of_distances(double farthest, std::span<Real> values, const Evaluate& evaluate) {
  const auto count = static_cast<Index>(values.size());
  for (Index first = 0; first < count; first += block_distances) {
    const double from = farthest - static_cast<double>(first);
    const Index n = (std::min)(block_distances, count - first);
    const Index whole = n / distance_group * distance_group;
    Real* const to = values.data() + first;
    if (whole > 0) evaluate(from, whole_numbers.data(), to, whole);
    if (whole < n) {
      Real last[distance_group];
      evaluate(from, whole_numbers.data() + whole, &last[0], distance_group);
      std::copy_n(last, n - whole, to + whole);
    }
  }
}

}  // namespace detail
POSENC_END
