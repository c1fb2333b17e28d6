// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/bias_stage.hpp>
#include <posenc/attention/detail/relative_columns.hpp>
#include <posenc/attention/detail/relative_products.hpp>
#include <posenc/attention/detail/row_block.hpp>
#include <posenc/attention/detail/slots.hpp>
#include <posenc/attention/detail/tile.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>

POSENC_BEGIN
namespace detail {

/// Of products with a relative table. What a query takes of them is a run, shifted by one from query to query,
/// where keys follow each other and columns do; else it is looked up, key by key.
template <class Tier, Scalar T, class S>
class BiasStage<Tier, T, S, RelativeBias<T>> {
 public:
  using Real = Compute<T>;
  using Block = RowBlock<Tier, T, S>;

  BiasStage(const RelativeBias<T>& bias, Real scale, Index rows, Index queries,
            Carver& carver) noexcept
      : bias_(bias),
        columns_(bias.index, is_given(bias.table) ? bias.table.seq : bias.key_table.seq),
        factor_(bias.scale == RelativeScale::Scaled ? scale : Real{1}),
        slots_((queries + tile_keys - 2) / tile_lanes + 2),
        most_places_(queries + tile_keys),
        of_query_(carver.take<std::int32_t>(most_places_)),
        of_key_(carver.take<std::int32_t>(most_places_)),
        products_(bias, columns_, factor_, is_given(bias.table) ? slots_ : 0, rows, carver),
        key_products_(bias, columns_, factor_, is_given(bias.key_table) ? slots_ : 0, carver) {}

  // products_ and key_products_ refer to columns_.
  BiasStage(const BiasStage&) = delete;
  BiasStage& operator=(const BiasStage&) = delete;

  void begin(const Block& block) noexcept {
    if (is_given(bias_.table)) products_.begin(block);
  }

  /// As many columns at a time as there are slots for: all of them, but where a user's positions lie far apart.
  void add(const Block& block, Index, const KeyTile<S>& keys, const BiasTile<Real>& tile) const {
    const Meeting met = meet(block, tile);
    for (Index t = met.first / tile_lanes; t * tile_lanes <= met.last; t += slots_) {
      const ColumnTiles tiles{t, (std::min)(t + slots_, met.last / tile_lanes + 1)};
      make(block, keys, tile, met, tiles);
      if (met.is_run && !columns_.is_run()) {
        for (Index offset = met.lowest; offset <= met.highest; ++offset) {
          put_place(offset - met.lowest, columns_.column(offset), tiles);
        }
      }
      for (Index i = 0; i < tile.queries; ++i) add_to_row(block, tile, met, tiles, i);
    }
  }

 private:
  /// How a tile's queries and keys meet the table.
  struct Meeting {
    bool is_run;  ///< whether keys follow each other, whole distances away from the queries
    bool
        has_gaps;  ///< whether some query and key have no column, or another one than those at hand
    Index lowest, highest;  ///< offsets of a run
    Index first, last;      ///< columns; none where first > last
  };

  /// Tiles of columns from begin to end - 1.
  struct ColumnTiles {
    Index begin, end;
  };

  /// Where the products of a column are.
  struct Place {
    Index of_query;  ///< from those of a query's first column on
    Index
        of_key;  ///< the column, counted from the first one of the tiles at hand; -1: none of them
  };

  static double query_of(const Block& block, const BiasTile<Real>& tile, Index i) noexcept {
    return block.position(tile.first_row + i * block.setting().group);
  }

  Meeting meet(const Block& block, const BiasTile<Real>& tile) const noexcept {
    bool is_run = true;
    for (Index j = 1; j < tile.keys; ++j) {
      is_run &= tile.key_positions[j] == tile.key_positions[0] + static_cast<double>(j);
    }
    double low = 0x1p52, high = -0x1p52;
    for (Index i = 0; i < tile.queries; ++i) {
      const double first = tile.key_positions[0] - query_of(block, tile, i);
      is_run &= first == std::floor(first) && std::abs(first) < 0x1p52;
      low = (std::min)(low, first);
      high = (std::max)(high, first);
    }
    Meeting met{is_run, false, 0, 0, columns_.count(), -1};
    if (is_run) {
      met.lowest = static_cast<Index>(low);
      met.highest = static_cast<Index>(high) + tile.keys - 1;
      met.is_run = columns_.is_run() || met.highest - met.lowest < most_places_;
    }
    const auto include = [&met](Index column) {
      met.has_gaps |= column == RelativeColumns::none;
      if (column == RelativeColumns::none) return;
      met.first = (std::min)(met.first, column);
      met.last = (std::max)(met.last, column);
    };
    if (met.is_run && columns_.is_run()) {
      // Without ends that repeat, one column more than is needed where all lies beyond one of them.
      include(columns_.column((std::clamp)(met.lowest, columns_.lowest(), columns_.end() - 1)));
      include(columns_.column((std::clamp)(met.highest, columns_.lowest(), columns_.end() - 1)));
    } else if (met.is_run) {
      for (Index offset = met.lowest; offset <= met.highest; ++offset) {
        include(columns_.column(offset));
      }
    } else {
      for (Index i = 0; i < tile.queries; ++i) {
        for (Index j = 0; j < tile.keys; ++j) {
          include(
              columns_.column(columns_.offset(query_of(block, tile, i), tile.key_positions[j])));
        }
      }
    }
    met.has_gaps |= met.last / tile_lanes - met.first / tile_lanes >= slots_;
    return met;
  }

  void make(const Block& block, const KeyTile<S>& keys, const BiasTile<Real>& tile,
            const Meeting& met, const ColumnTiles& tiles) const noexcept {
    for (Index t = tiles.begin; t < tiles.end; ++t) {
      const Index from = (std::max)(met.first - t * tile_lanes, Index{0});
      const Index to = (std::min)(met.last - t * tile_lanes, tile_lanes - 1);
      if (is_given(bias_.table)) products_.make(t, from, to);
      if (is_given(bias_.key_table)) {
        key_products_.make(t, t - tiles.begin, from, to, block.head(tile.first_row), keys.keys,
                           tile.first_lane, tile.first_lane + tile.keys);
      }
    }
  }

  Place place_of(Index column, const ColumnTiles& tiles) const noexcept {
    const Index t = column / tile_lanes;
    if (column == RelativeColumns::none || t < tiles.begin || t >= tiles.end) return {0, -1};
    return {is_given(bias_.table) ? products_.place(column) : 0, column - tiles.begin * tile_lanes};
  }

  void put_place(Index n, Index column, const ColumnTiles& tiles) const noexcept {
    const Place place = place_of(column, tiles);
    of_query_[n] = static_cast<std::int32_t>(place.of_query);
    of_key_[n] = static_cast<std::int32_t>(place.of_key);
  }

  void add_to_row(const Block& block, const BiasTile<Real>& tile, const Meeting& met,
                  const ColumnTiles& tiles, Index i) const noexcept {
    const double query = query_of(block, tile, i);
    const Index group = block.setting().group, r = tile.first_row + i * group;
    const Real* const products =
        is_given(bias_.table) ? products_.of(r % group, r / group) : nullptr;
    Real* const scores = tile.scores.row(i);
    if (!met.is_run) {
      for (Index j = 0; j < tile.keys; ++j) {
        const Index offset = columns_.offset(query, tile.key_positions[j]);
        put_place(j, columns_.column(offset), tiles);
      }
      add_places(0, met, tile, products, scores);
      return;
    }
    const auto first = static_cast<Index>(tile.key_positions[0] - query);
    if (!columns_.is_run()) {
      add_places(first - met.lowest, met, tile, products, scores);
      return;
    }
    // Keys [low, high) meet the table, others lie beyond its ends.
    const Index column = first - columns_.lowest(), last = columns_.count() - 1;
    const Index low = (std::clamp)(-column, Index{0}, tile.keys);
    const Index high = (std::clamp)(last + 1 - column, low, tile.keys);
    if (columns_.repeats_ends()) {
      add_one(place_of(0, tiles), tile, products, 0, low, scores);
      add_one(place_of(last, tiles), tile, products, high, tile.keys, scores);
    }
    for (Index t = tiles.begin; t < tiles.end; ++t) {
      const Index begin = t * tile_lanes - column;
      const Index from = (std::max)(low, begin), to = (std::min)(high, begin + tile_lanes);
      if (from < to) add_run(place_of(from + column, tiles), tile, products, from, to, scores);
    }
  }

  /// To keys [from, to), whose columns follow each other from `place` on.
  void add_run(const Place& place, const BiasTile<Real>& tile, const Real* products, Index from,
               Index to, Real* scores) const noexcept {
    if (products != nullptr) {
      add_values<Tier>(products + place.of_query, scores + from, to - from);
    }
    if (is_given(bias_.key_table)) {
      for (Index j = from; j < to; ++j) {
        scores[j] += key_products_.of(place.of_key + j - from)[tile.first_lane + j];
      }
    }
  }

  /// To keys [from, to), which share a column.
  void add_one(const Place& place, const BiasTile<Real>& tile, const Real* products, Index from,
               Index to, Real* scores) const noexcept {
    if (from >= to || place.of_key < 0) return;
    if (products != nullptr) {
      const Real product = products[place.of_query];
      for (Index j = from; j < to; ++j) scores[j] += product;
    }
    if (is_given(bias_.key_table)) {
      const Real* const of_key = key_products_.of(place.of_key) + tile.first_lane;
      for (Index j = from; j < to; ++j) scores[j] += of_key[j];
    }
  }

  /// To all keys, key j having place n + j.
  void add_places(Index n, const Meeting& met, const BiasTile<Real>& tile, const Real* products,
                  Real* scores) const noexcept {
    const std::int32_t *const of_query = of_query_ + n, *const of_key = of_key_ + n;
    const Real* const of_keys = key_products_.of(0) + tile.first_lane;
    const bool has_keys = is_given(bias_.key_table);
    if (met.has_gaps) {
      for (Index j = 0; j < tile.keys; ++j) {
        if (of_key[j] < 0) continue;
        if (products != nullptr) scores[j] += products[of_query[j]];
        if (has_keys) scores[j] += of_keys[of_key[j] * tile_keys + j];
      }
      return;
    }
    // Loops without a condition, for compilers to make gathers of.
    if (products != nullptr) {
      for (Index j = 0; j < tile.keys; ++j) scores[j] += products[of_query[j]];
    }
    if (has_keys) {
      for (Index j = 0; j < tile.keys; ++j) scores[j] += of_keys[of_key[j] * tile_keys + j];
    }
  }

  const RelativeBias<T>& bias_;
  RelativeColumns columns_;
  Real factor_;
  Index slots_, most_places_;
  std::int32_t* of_query_;  ///< places of what is looked up
  std::int32_t* of_key_;
  RelativeProducts<Tier, T> products_;
  RelativeKeyProducts<Tier, T, S> key_products_;
};

}  // namespace detail
POSENC_END
