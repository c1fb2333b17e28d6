// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/kernel_tile.hpp>
#include <posenc/attention/detail/relative_columns.hpp>
#include <posenc/attention/detail/relative_products.hpp>
#include <posenc/kernels/diagonals.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

POSENC_BEGIN
namespace detail {

/// Sum of a RelativeBias's products for a block. If keys and columns are consecutive, a query reads
/// a contiguous range of its products, shifted by one from query to query. Otherwise each key's
/// column is looked up.
template <class Tier, Scalar T, class S>
class RelativeStage {
 public:
  using Real = Compute<T>;
  using Block = KernelBlock<Tier, T, S>;
  using Tile = KernelTile<Tier, T, S>;
  using Scores = MatrixView<Real>;

  RelativeStage(const Block& block, const RelativeBias<T>& bias, ArenaAllocator& allocator) noexcept
      : bias_(bias),
        columns_(columns_of(bias)),
        ring_slots_(column_ring_slots(block.queries)),
        max_indices_(block.queries + tile_keys),
        query_offsets_(allocator.allocate<std::int32_t>(max_indices_)),
        key_columns_(allocator.allocate<std::int32_t>(max_indices_)),
        products_(bias, columns_, factor_of(bias, block), is_present(bias.table) ? ring_slots_ : 0,
                  block.queries * block.heads, allocator),
        key_products_(bias, columns_, factor_of(bias, block),
                      is_present(bias.key_table) ? ring_slots_ : 0, allocator) {}

  // products_ and key_products_ hold references to columns_.
  RelativeStage(const RelativeStage&) = delete;
  RelativeStage& operator=(const RelativeStage&) = delete;

  void begin(const Block& block) noexcept {
    if (is_present(bias_.table)) products_.begin(block);
  }

  /// Adds the bias for as many columns at a time as there are ring slots. These are all columns,
  /// unless user-supplied positions are far apart.
  void add(const Tile& tile, const Scores& scores) const noexcept {
    const ColumnAccess access = column_access(tile);
    for (Index t = access.first / tile_lanes; t * tile_lanes <= access.last; t += ring_slots_) {
      const ColumnTiles tiles{t, (std::min)(t + ring_slots_, access.last / tile_lanes + 1)};
      compute_products(tile, access, tiles);
      if (access.is_contiguous && !columns_.is_contiguous()) {
        for (Index offset = access.min_offset; offset <= access.max_offset; ++offset) {
          store_product_index(offset - access.min_offset, columns_.column(offset), tiles);
        }
        if (!access.has_gaps) {
          add_gathered_run(tile, access, scores);
          continue;
        }
      }
      if (access.is_contiguous && columns_.is_contiguous()) {
        add_contiguous(tile, tiles, scores);
      } else {
        add_gathered(tile, access, tiles, scores);
      }
    }
  }

 private:
  /// Columns of the table that a tile's queries and keys need.
  struct ColumnAccess {
    bool is_contiguous;  ///< keys are consecutive, at integer distances from the queries
    /// True if some query and key have no column, or if the columns exceed the ring slots.
    bool has_gaps;
    Index min_offset, max_offset;  ///< first and last offset, if is_contiguous
    Index first, last;             ///< first and last column; none if first > last
  };

  /// Tiles of columns [begin, end).
  struct ColumnTiles {
    Index begin, end;
  };

  /// Indices of the products of a column.
  struct ProductIndex {
    Index query_offset;  ///< relative to the products of a query's first column
    /// Column, counted from the first one of the current tiles of columns; -1 if not in them.
    Index key_column;
  };

  static double at(std::span<const double> positions, Index n) noexcept {
    return positions[static_cast<std::size_t>(n)];
  }
  static Index keys_of(const Tile& tile) noexcept {
    return static_cast<Index>(tile.tokens.key_positions.size());
  }
  static Index queries_of(const Tile& tile) noexcept {
    return static_cast<Index>(tile.tokens.query_positions.size());
  }

  ColumnAccess column_access(const Tile& tile) const noexcept {
    const auto queries = tile.tokens.query_positions, keys = tile.tokens.key_positions;
    bool is_contiguous = true;
    for (std::size_t j = 1; j < keys.size(); ++j) {
      is_contiguous &= keys[j] == keys[0] + static_cast<double>(j);
    }
    double low = 0x1p52, high = -0x1p52;
    for (const double query : queries) {
      const double first = keys[0] - query;
      is_contiguous &= first == std::floor(first) && std::abs(first) < 0x1p52;
      low = (std::min)(low, first);
      high = (std::max)(high, first);
    }
    ColumnAccess access{.is_contiguous = is_contiguous,
                        .has_gaps = false,
                        .min_offset = 0,
                        .max_offset = 0,
                        .first = columns_.count(),
                        .last = -1};
    if (is_contiguous) {
      access.min_offset = static_cast<Index>(low);
      access.max_offset = static_cast<Index>(high) + keys_of(tile) - 1;
      access.is_contiguous =
          columns_.is_contiguous() || access.max_offset - access.min_offset < max_indices_;
    }
    const auto include = [&access](Index column) {
      access.has_gaps |= column == RelativeColumns::none;
      if (column == RelativeColumns::none) return;
      access.first = (std::min)(access.first, column);
      access.last = (std::max)(access.last, column);
    };
    if (access.is_contiguous && columns_.is_contiguous()) {
      // Without clamping, this includes one unneeded column if all offsets are beyond one end.
      include(columns_.column(
          (std::clamp)(access.min_offset, columns_.min_offset(), columns_.end() - 1)));
      include(columns_.column(
          (std::clamp)(access.max_offset, columns_.min_offset(), columns_.end() - 1)));
    } else if (access.is_contiguous) {
      for (Index offset = access.min_offset; offset <= access.max_offset; ++offset) {
        include(columns_.column(offset));
      }
    } else {
      for (const double query : queries) {
        for (const double key : keys) include(columns_.column(columns_.offset(query, key)));
      }
    }
    access.has_gaps |= access.last / tile_lanes - access.first / tile_lanes >= ring_slots_;
    return access;
  }

  void compute_products(const Tile& tile, const ColumnAccess& access,
                        const ColumnTiles& tiles) const noexcept {
    const Index first = tile.first_lane();
    for (Index t = tiles.begin; t < tiles.end; ++t) {
      const Index from = (std::max)(access.first - t * tile_lanes, Index{0});
      const Index to = (std::min)(access.last - t * tile_lanes, tile_lanes - 1);
      if (is_present(bias_.table)) products_.compute(t, from, to);
      if (is_present(bias_.key_table)) {
        key_products_.compute(t, t - tiles.begin, from, to, tile.tokens.head, tile.panels, first,
                              first + keys_of(tile));
      }
    }
  }

  ProductIndex product_index(Index column, const ColumnTiles& tiles) const noexcept {
    const Index t = column / tile_lanes;
    if (column == RelativeColumns::none || t < tiles.begin || t >= tiles.end) return {0, -1};
    return {is_present(bias_.table) ? products_.offset_of_column(column) : 0,
            column - tiles.begin * tile_lanes};
  }

  void store_product_index(Index n, Index column, const ColumnTiles& tiles) const noexcept {
    const ProductIndex index = product_index(column, tiles);
    query_offsets_[n] = static_cast<std::int32_t>(index.query_offset);
    key_columns_[n] = static_cast<std::int32_t>(index.key_column);
  }

  /// Returns the products of a tile's first query, which those of the other queries follow; nullptr
  /// if there is only a table of keys.
  const Real* products_of(const Tile& tile) const noexcept {
    if (!is_present(bias_.table)) return nullptr;
    return products_.row(tile.tokens.head - tile.block.first_head,
                         tile.tokens.first_query - tile.block.first_query);
  }
  static const Real* products_of_row(const Real* products, Index i) noexcept {
    return products == nullptr ? nullptr : products + i * tile_lanes;
  }

  /// Adds products of consecutive columns.
  void add_contiguous(const Tile& tile, const ColumnTiles& tiles,
                      const Scores& scores) const noexcept {
    const Index keys = keys_of(tile);
    const Real* const products = products_of(tile);
    const Index last = columns_.count() - 1;
    // Calls visit(row, column of key 0, [low, high)), with the range of keys whose columns are in
    // the table; other keys are beyond its ends.
    const auto for_rows = [&](const auto& visit) {
      for (Index i = 0; i < queries_of(tile); ++i) {
        const Index column = offset_of(tile, i) - columns_.min_offset();
        const Index low = (std::clamp)(-column, Index{0}, keys);
        visit(i, column, low, (std::clamp)(last + 1 - column, low, keys));
      }
    };
    if (columns_.clamps_to_ends()) {
      const ProductIndex first_index = product_index(0, tiles);
      const ProductIndex last_index = product_index(last, tiles);
      for_rows([&](Index i, Index, Index low, Index high) {
        add_clamped_end(first_index, tile, products_of_row(products, i), 0, low, scores.row(i));
        add_clamped_end(last_index, tile, products_of_row(products, i), high, keys, scores.row(i));
      });
    }
    for (Index t = tiles.begin; t < tiles.end; ++t) {
      const ProductIndex index = product_index(t * tile_lanes, tiles);
      for_rows([&](Index i, Index column, Index low, Index high) {
        const Index begin = t * tile_lanes - column;
        const Index from = (std::max)(low, begin), to = (std::min)(high, begin + tile_lanes);
        if (from >= to) return;
        add_contiguous_row({index.query_offset + from - begin, index.key_column + from - begin},
                           tile, products_of_row(products, i), from, to, scores.row(i));
      });
    }
  }

  /// Adds to keys [from, to), whose columns are consecutive, starting at `index`.
  void add_contiguous_row(const ProductIndex& index, const Tile& tile, const Real* products,
                          Index from, Index to, Real* scores) const noexcept {
    if (products != nullptr) {
      add_values<Tier>(products + index.query_offset, scores + from, to - from);
    }
    if (is_present(bias_.key_table)) {
      for (Index j = from; j < to; ++j) {
        scores[j] += key_products_.column(index.key_column + j - from)[tile.first_lane() + j];
      }
    }
  }

  /// Adds to keys [from, to), which share a column.
  void add_clamped_end(const ProductIndex& index, const Tile& tile, const Real* products,
                       Index from, Index to, Real* scores) const noexcept {
    if (from >= to || index.key_column < 0) return;
    if (products != nullptr) {
      const Real product = products[index.query_offset];
      for (Index j = from; j < to; ++j) scores[j] += product;
    }
    if (is_present(bias_.key_table)) {
      const Real* const column = key_products_.column(index.key_column) + tile.first_lane();
      for (Index j = from; j < to; ++j) scores[j] += column[j];
    }
  }

  /// Returns key - query of a tile's first key and query i, of a tile with integer distances.
  static Index offset_of(const Tile& tile, Index i) noexcept {
    return static_cast<Index>(tile.tokens.key_positions[0] - at(tile.tokens.query_positions, i));
  }

  /// Adds products whose columns are looked up key by key.
  void add_gathered(const Tile& tile, const ColumnAccess& access, const ColumnTiles& tiles,
                    const Scores& scores_of_tile) const noexcept {
    const Real* const products = products_of(tile);
    const Real* const key_products = key_products_.column(0) + tile.first_lane();
    const bool has_keys = is_present(bias_.key_table);
    const Index keys = keys_of(tile);
    for (Index i = 0; i < queries_of(tile); ++i) {
      Index n = 0;
      if (access.is_contiguous) {
        n = offset_of(tile, i) - access.min_offset;
      } else {
        for (Index j = 0; j < keys; ++j) {
          const Index offset =
              columns_.offset(at(tile.tokens.query_positions, i), at(tile.tokens.key_positions, j));
          store_product_index(j, columns_.column(offset), tiles);
        }
      }
      const std::int32_t* const query_offsets = query_offsets_ + n;
      const std::int32_t* const key_columns = key_columns_ + n;
      Real* const scores = scores_of_tile.row(i);
      for (Index j = 0; j < keys; ++j) {
        if (key_columns[j] < 0) continue;
        if (products != nullptr) scores[j] += products_of_row(products, i)[query_offsets[j]];
        if (has_keys) scores[j] += key_products[key_columns[j] * tile_keys + j];
      }
    }
  }

  /// Adds to all rows of consecutive keys that all have a column at hand.
  void add_gathered_run(const Tile& tile, const ColumnAccess& access,
                        const Scores& scores_of_tile) const noexcept {
    using P = Pack<Real, Tier>;
    const Index queries = queries_of(tile), keys = keys_of(tile);
    const auto index_of_row = [&](Index i) { return offset_of(tile, i) - access.min_offset; };
    if (const Real* products = products_of(tile)) {
      const bool ascending =
          std::is_sorted(key_columns_, key_columns_ + (access.max_offset - access.min_offset + 1));
      for (Index i = 0; i < queries; ++i) {
        const std::int32_t* const indices = query_offsets_ + index_of_row(i);
        Real* const scores = scores_of_tile.row(i);
        Index j = 0;
        for (; j + P::width <= keys; j += P::width) {
          (P::load(scores + j) + gather<P>(products, indices + j, ascending)).store(scores + j);
        }
        for (; j < keys; ++j) scores[j] += products[indices[j]];
        products += tile_lanes;
      }
    }
    if (!is_present(bias_.key_table)) return;
    const Real* const key_products = key_products_.column(0) + tile.first_lane();
    const auto add_to = [&](Index i, Index from, Index to) {
      const std::int32_t* const indices = key_columns_ + index_of_row(i);
      for (Index j = from; j < to; ++j) {
        scores_of_tile.row(i)[j] += key_products[indices[j] * tile_keys + j];
      }
    };
    const Index in_squares = keys / P::width * P::width;
    for (Index i = 0; i < queries;) {
      // Counts consecutive queries.
      Index rows = 1;
      while (rows < P::width && i + rows < queries &&
             index_of_row(i + rows) == index_of_row(i) - rows) {
        ++rows;
      }
      const Index done = rows == P::width ? in_squares : 0;
      for (Index j = 0; j < done; j += P::width) {
        key_products_.template add_square_block<P>(key_columns_ + index_of_row(i) + j,
                                                   tile.first_lane() + j, scores_of_tile.row(i) + j,
                                                   scores_of_tile.row_stride);
      }
      for (Index end = i + rows; i < end; ++i) add_to(i, done, keys);
    }
  }

  const RelativeBias<T>& bias_;
  RelativeColumns columns_;
  Index ring_slots_, max_indices_;
  std::int32_t* query_offsets_;  ///< indices of products per offset or key
  std::int32_t* key_columns_;
  RelativeProducts<Tier, T> products_;
  RelativeKeyProducts<Tier, T, S> key_products_;
};

}  // namespace detail
POSENC_END
