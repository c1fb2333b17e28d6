// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.hpp"
#include "support/heads.hpp"
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

/// Tiles of scores and positions, shared by the tests of biases.
namespace tiles {

using posenc::Index;
using posenc::MatrixView;
using Values = std::vector<double>;

inline Values run(double first, Index count) {
  Values positions;
  for (Index i = 0; i < count; ++i) positions.push_back(first + static_cast<double>(i));
  return positions;
}

/// Returns the values that the bias adds to a tile of zeros.
template <class Real, class Bias>
std::vector<Real> added(const Bias& bias, Index head, std::span<const double> queries,
                        std::span<const double> keys) {
  const auto rows = static_cast<Index>(queries.size()), columns = static_cast<Index>(keys.size());
  std::vector<Real> tile(queries.size() * keys.size());
  bias.add(head, queries, keys, MatrixView<Real>{tile.data(), rows, columns, columns});
  return tile;
}

/// Checks that scores one by one are bit-identical to those of the full tile. The tiles cover all
/// paths of a bias: consecutive tokens, more than one block of them, repeated and fractional
/// positions.
template <class Real, class Bias>
void check_single_scores(const Bias& bias, Index head) {
  Values restarted = run(0, 40), repeated = run(7, 20);
  restarted.insert(restarted.end(), repeated.begin(), repeated.end());
  repeated.insert(repeated.begin(), 5, 7.0);
  Values far_first = run(1000, 16);
  far_first.push_back(1);
  const struct {
    Values queries, keys;
  } cases[] = {{run(500, 70), run(100, 1100)},
               {run(-3, 12), run(-3, 129)},
               {run(0.5, 40), run(0, 33)},
               {run(20, 33), run(0.25, 40)},
               {restarted, run(0, 60)},
               {restarted, repeated},
               {{0, 0}, far_first},
               {run(0x1p51 - 20, 40), run(0x1p51 - 40, 33)}};
  for (const auto& [queries, keys] : cases) {
    CAPTURE(queries.front(), queries.size(), keys.front(), keys.size());
    const auto whole = added<Real>(bias, head, queries, keys);
    Index different = 0;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      for (std::size_t j = 0; j < keys.size(); ++j) {
        const auto alone = added<Real>(bias, head, Values{queries[i]}, Values{keys[j]});
        different += support::same_bits(&alone[0], &whole[i * keys.size() + j], 1) ? 0 : 1;
      }
    }
    CHECK(different == 0);
  }
}

}  // namespace tiles
