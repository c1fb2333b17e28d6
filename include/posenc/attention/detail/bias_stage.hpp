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

/// Rows of one head of a block, and lanes of a tile.
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
    if constexpr (TokenBias<Bias, T>) {
      bias_.add(tokens_of(block, first_key, tile), tile.scores);
    } else {
      bias_.add(block.head(tile.first_row), queries_of(block, tile), keys_of(tile), tile.scores);
    }
  }

  /// gradient += that of the bias's parameters, for the gradient of what add() has added to.
  template <class Gradient>
  void add_gradient(const Block& block, Index first_key, const BiasTile<const Real>& tile,
                    Gradient& gradient) const {
    if constexpr (TokenBias<Bias, T>) {
      bias_.add_gradient(tokens_of(block, first_key, tile), tile.scores, gradient);
    } else {
      bias_.add_gradient(block.head(tile.first_row), queries_of(block, tile), keys_of(tile),
                         tile.scores, gradient);
    }
  }

 private:
  template <class R>
  static std::span<const double> queries_of(const Block& block, const BiasTile<R>& tile) noexcept {
    return {block.positions(tile.first_row), static_cast<std::size_t>(tile.queries)};
  }
  template <class R>
  static std::span<const double> keys_of(const BiasTile<R>& tile) noexcept {
    return {tile.key_positions, static_cast<std::size_t>(tile.keys)};
  }
  template <class R>
  static TokenTile tokens_of(const Block& block, Index first_key,
                             const BiasTile<R>& tile) noexcept {
    const AttentionSequence& s = block.sequence();
    const Index query = block.query(tile.first_row);
    return {s.batch,
            s.number,
            block.head(tile.first_row),
            s.first_query + query,
            s.place + query,
            first_key + tile.first_lane,
            queries_of(block, tile),
            keys_of(tile)};
  }

  const Bias& bias_;
};

}  // namespace detail
POSENC_END
