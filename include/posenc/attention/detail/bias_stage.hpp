// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/row_block.hpp>
#include <posenc/attention/detail/slots.hpp>
#include <posenc/attention/detail/tile.hpp>
#include <posenc/concepts.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <span>

// What adds a bias to a tile's scores: one that is a function of positions or of tokens; relative_stage.hpp has
// that of products with a table.
POSENC_BEGIN
namespace detail {

/// Rows of one head of a block, and lanes of a tile that all of them see.
template <class Real>
struct BiasTile {
  Index first_row, queries;  ///< of the block; rows of a head are `group` rows apart
  Index first_lane, keys;
  const double* key_positions;  ///< of those lanes
  MatrixView<Real> scores;      ///< [queries, keys]
};

/// Of a bias that knows by itself what to add.
template <class Tier, Scalar T, class S, class Bias>
class BiasStage {
 public:
  using Real = Compute<T>;
  using Block = RowBlock<Tier, T, S>;

  BiasStage(const Bias& bias, Real, Index, Index, Carver&) noexcept : bias_(bias) {}

  void begin(const Block&) const noexcept {}

  void add(const Block& block, Index first_key, const KeyTile<S>&,
           const BiasTile<Real>& tile) const {
    const Index group = block.setting().group;
    const std::span<const double> queries(block.positions() + tile.first_row / group,
                                          static_cast<std::size_t>(tile.queries));
    const std::span<const double> keys(tile.key_positions, static_cast<std::size_t>(tile.keys));
    if constexpr (TokenBias<Bias, T>) {
      const AttentionSequence& s = block.sequence();
      const Index query = block.query(tile.first_row);
      bias_.add(TokenTile{s.batch, s.number, block.head(tile.first_row), s.first_query + query,
                          s.place + query, first_key + tile.first_lane, queries, keys},
                tile.scores);
    } else {
      bias_.add(block.head(tile.first_row), queries, keys, tile.scores);
    }
  }

 private:
  const Bias& bias_;
};

}  // namespace detail
POSENC_END
