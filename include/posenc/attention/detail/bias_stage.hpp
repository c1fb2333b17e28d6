// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/relative_columns.hpp>
#include <posenc/attention/detail/relative_products.hpp>
#include <posenc/attention/detail/row_block.hpp>
#include <posenc/attention/detail/slots.hpp>
#include <posenc/attention/detail/tile.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/concepts.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

// What adds a bias to a tile's scores: one that is a function of positions, one of tokens, one of products
// with a table.
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

/// Of products with a relative table.
template <class Tier, Scalar T, class S>
class BiasStage<Tier, T, S, RelativeBias<T>> {
 public:
  using Real = Compute<T>;
  using Block = RowBlock<Tier, T, S>;

  BiasStage(const RelativeBias<T>& bias, Real scale, Index rows, Index queries,
            Carver& carver) noexcept
      : bias_(bias),
        columns_(bias.index, bias.table.data != nullptr ? bias.table.seq : bias.key_table.seq),
        factor_(bias.scale == RelativeScale::Scaled ? scale : Real{1}),
        products_(bias, columns_, factor_, bias.table.data != nullptr ? slots(queries) : 0,
                  bias.table.data != nullptr ? rows : 0, carver),
        key_products_(bias, columns_, factor_, carver) {}

  // products_ and key_products_ refer to columns_.
  BiasStage(const BiasStage&) = delete;
  BiasStage& operator=(const BiasStage&) = delete;

  void begin(const Block& block) noexcept {
    if (bias_.table.data != nullptr) products_.begin(block);
  }

  /// A tile of columns at a time, so that what a row takes of it lies in one piece.
  void add(const Block& block, Index, const KeyTile<S>& keys, const BiasTile<Real>& tile) const {
    const Reach reach = reach_of(block, tile);
    for (Index t = reach.first / tile_lanes; t * tile_lanes <= reach.last; ++t) {
      const Index from = (std::max)(reach.first - t * tile_lanes, Index{0});
      const Index to = (std::min)(reach.last - t * tile_lanes, tile_lanes - 1);
      if (bias_.table.data != nullptr) products_.make(t, from, to);
      if (bias_.key_table.data != nullptr) {
        key_products_.make(t, from, to, block.head(tile.first_row), keys.keys, tile.first_lane,
                           tile.first_lane + tile.keys);
      }
      for (Index i = 0; i < tile.queries; ++i) add_to_row(block, tile, reach, i, t);
    }
  }

 private:
  using P = Pack<Real, Tier>;

  /// Columns that some query and key of a tile have; none where first > last.
  struct Reach {
    Index first, last;
    bool run;  ///< whether keys follow each other, and have columns that do
  };

  /// A row of scores, and what it takes of a tile of columns.
  struct Row {
    Real* scores;
    Index first_column, first_lane;
    const Real* products;  ///< of the query, where there are some
  };

  /// Tiles of columns that a tile of keys can meet for so many queries that follow each other.
  static constexpr Index slots(Index queries) noexcept {
    return (queries + tile_keys - 2) / tile_lanes + 2;
  }

  static double query_of(const Block& block, const BiasTile<Real>& tile, Index i) noexcept {
    return block.position(tile.first_row + i * block.setting().group);
  }

  /// Whether keys follow each other, as they do but where a user gives their positions.
  static bool is_run(const BiasTile<Real>& tile) noexcept {
    for (Index j = 1; j < tile.keys; ++j) {
      if (tile.key_positions[j] != tile.key_positions[0] + static_cast<double>(j)) return false;
    }
    return true;
  }

  Reach reach_of(const Block& block, const BiasTile<Real>& tile) const noexcept {
    const bool run = columns_.is_run() && is_run(tile);
    Reach reach{columns_.count(), -1, run};
    // The ends of a run tell what lies between them.
    const Index step = run ? (std::max)(tile.keys - 1, Index{1}) : 1;
    for (Index i = 0; i < tile.queries; ++i) {
      for (Index j = 0; j < tile.keys; j += step) {
        const Index offset = columns_.offset(query_of(block, tile, i), tile.key_positions[j]);
        const Index inside =
            run ? (std::clamp)(offset, columns_.lowest(), columns_.end() - 1) : offset;
        const Index c = columns_.column(inside);
        if (c == RelativeColumns::none) continue;
        reach.first = (std::min)(reach.first, c);
        reach.last = (std::max)(reach.last, c);
      }
    }
    return reach;
  }

  /// What tile t of columns gives to query i.
  void add_to_row(const Block& block, const BiasTile<Real>& tile, const Reach& reach, Index i,
                  Index t) const noexcept {
    const double query = query_of(block, tile, i);
    const Index begin = t * tile_lanes, end = (std::min)(begin + tile_lanes, columns_.count());
    const Index group = block.setting().group, row = tile.first_row + i * group;
    const Row to{tile.scores.row(i), begin, tile.first_lane,
                 bias_.table.data == nullptr ? nullptr : products_.of(t, row % group, row / group)};
    const double first = tile.key_positions[0] - query;
    if (reach.run && first == std::floor(first) && std::abs(first) < 0x1p52) {
      // Keys [low, high) meet the table, others lie beyond its ends.
      const Index column = static_cast<Index>(first) - columns_.lowest();
      const Index low = (std::clamp)(-column, Index{0}, tile.keys);
      const Index high = (std::clamp)(columns_.count() - column, low, tile.keys);
      if (columns_.repeats_ends() && begin == 0) add_one(to, 0, low, 0);
      if (columns_.repeats_ends() && end == columns_.count()) add_one(to, high, tile.keys, end - 1);
      add_run(to, (std::max)(low, begin - column), (std::min)(high, end - column), column);
      return;
    }
    for (Index j = 0; j < tile.keys; ++j) {
      const Index c = columns_.column(columns_.offset(query, tile.key_positions[j]));
      if (begin <= c && c < end) add_one(to, j, j + 1, c);
    }
  }

  /// To keys [from, to), key j having column first + j.
  void add_run(const Row& row, Index from, Index to, Index first) const noexcept {
    if (row.products != nullptr) {
      const Index shift = first - row.first_column;
      Index j = from;
      for (; j + P::width <= to; j += P::width) {
        (P::load(row.scores + j) + P::load(row.products + (shift + j))).store(row.scores + j);
      }
      if (j < to) {
        const P product = P::load_partial(row.products + (shift + j), to - j);
        (P::load_partial(row.scores + j, to - j) + product).store_partial(row.scores + j, to - j);
      }
    }
    if (bias_.key_table.data != nullptr) {
      for (Index j = from; j < to; ++j) {
        row.scores[j] += key_products_.of(first + j)[row.first_lane + j];
      }
    }
  }

  /// To keys [from, to), all of one column.
  void add_one(const Row& row, Index from, Index to, Index column) const noexcept {
    if (from >= to) return;
    if (row.products != nullptr) {
      const Real product = row.products[column - row.first_column];
      for (Index j = from; j < to; ++j) row.scores[j] += product;
    }
    if (bias_.key_table.data != nullptr) {
      const Real* const products = key_products_.of(column) + row.first_lane;
      for (Index j = from; j < to; ++j) row.scores[j] += products[j];
    }
  }

  const RelativeBias<T>& bias_;
  RelativeColumns columns_;
  Real factor_;
  RelativeProducts<Tier, T, S> products_;
  RelativeKeyProducts<Tier, T, S> key_products_;
};

}  // namespace detail
POSENC_END
