// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/erased_bias.hpp>
#include <posenc/attention/detail/masks.hpp>
#include <posenc/attention/relative_index.hpp>
#include <posenc/core/error.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>

POSENC_BEGIN

template <class T>
struct RelativeBias;
template <Scalar T>
struct RelativeGradient;

namespace detail {

/// True if a bias has this part. The part may still be empty.
template <class T>
bool is_present(const HeadsView<T>& part) noexcept {
  return !is_omitted(part);
}

/// Returns the channels of a part; 0 if it is omitted.
template <class T>
Index dim_of(const HeadsView<T>& part) noexcept {
  return is_present(part) ? Index{part.dim} : 0;
}

/// Relative table with columns in order of ascending key - query, so that a row of scores, whose
/// keys ascend, reads contiguous columns. The columns are the table's rows, in the same or the
/// opposite order. So are those that RelativeIndex::rows refers to.
class RelativeColumns {
 public:
  RelativeColumns(const RelativeIndex& index, Index table_rows) noexcept
      : index_(index),
        count_(table_rows),
        entries_(index.rows.empty() ? table_rows : static_cast<Index>(index.rows.size())),
        min_offset_(ascends() ? index.first : 1 - index.first - entries_) {}

  static constexpr Index none = -1;

  Index count() const noexcept { return count_; }
  /// Returns the table row of column c.
  Index table_row(Index c) const noexcept { return ascends() ? c : count_ - 1 - c; }
  Index row_step() const noexcept { return ascends() ? 1 : -1; }

  /// Returns the integer part of key - query, clamped to one beyond the table's ends.
  Index offset(double query, double key) const noexcept {
    const auto low = static_cast<double>(min_offset_ - 1), high = static_cast<double>(end());
    // In this order a NaN is beyond the lower end.
    return static_cast<Index>((std::min)((std::max)(low, key - query), high));
  }
  /// Returns the column of an offset, or none.
  Index column(Index offset) const noexcept {
    Index entry = offset - min_offset_;
    if (entry < 0 || entry >= entries_) {
      if (index_.beyond != BeyondTable::Nearest) return none;
      entry = entry < 0 ? 0 : entries_ - 1;
    }
    if (index_.rows.empty()) return entry;
    return table_row(
        index_.rows[static_cast<std::size_t>(ascends() ? entry : entries_ - 1 - entry)]);
  }

  /// True if offsets min_offset() .. end() - 1 have columns 0, 1, ...
  bool is_contiguous() const noexcept { return index_.rows.empty(); }
  Index min_offset() const noexcept { return min_offset_; }
  Index end() const noexcept { return min_offset_ + entries_; }
  bool clamps_to_ends() const noexcept { return index_.beyond == BeyondTable::Nearest; }

 private:
  bool ascends() const noexcept { return index_.order == RelativeOrder::KeyMinusQuery; }

  RelativeIndex index_;
  Index count_, entries_, min_offset_;
};

/// Returns the columns of a bias's tables.
template <Scalar T>
RelativeColumns columns_of(const RelativeBias<T>& bias) noexcept {
  return {bias.index, is_present(bias.table) ? bias.table.seq : bias.key_table.seq};
}

/// Returns the factor of the products.
template <Scalar T>
Compute<T> factor_of(const RelativeBias<T>& bias, const QueryBiasBlock<T>& block) noexcept {
  return bias.scale == RelativeScale::Scaled ? block.scale : Compute<T>{1};
}

/// Returns the number of tiles of columns that consecutive queries and a tile of keys need.
constexpr Index column_ring_slots(Index queries) noexcept {
  return (queries + tile_keys - 2) / tile_lanes + 2;
}

/// Throws PositionError if a query sees, in any head, a key beyond the ends of the table. Walks
/// over the visible ranges of all queries.
template <Scalar T>
void check_table_range(const char* function, const RelativeColumns& columns,
                       const AttentionGeometry<T>& geometry, const Masks<T>& masks, Index heads) {
  const auto is_beyond = [&](double query, double key) {
    const Index offset = columns.offset(query, key);
    return offset < columns.min_offset() || offset >= columns.end();
  };
  const auto is_seen = [&](const AttentionSequence& s, Index i, Index j) {
    for (Index h = 0; h < heads; ++h) {
      if (!masks.is_active() || masks.is_any_visible(s, h, i, j, 1)) return true;
    }
    return false;
  };
  for (Index n = 0; n < geometry.sequences(); ++n) {
    const AttentionSequence s = geometry.sequence(n);
    for (Index i = 0; i < s.queries; ++i) {
      const KeyRange range = geometry.visible_range(s, i);
      if (range.empty()) continue;
      const double query = geometry.query_position(s, i);
      // Implicit positions ascend, so the first and the last key suffice.
      const Index step =
          geometry.has_explicit_positions() ? 1 : (std::max)(range.end - range.begin - 1, Index{1});
      bool all_within = true;
      for (Index j = range.begin; j < range.end && all_within; j += step) {
        all_within = !is_beyond(query, geometry.key_position(s, j));
      }
      for (Index j = range.begin; j < range.end && !all_within; ++j) {
        const double key = geometry.key_position(s, j);
        if (!is_beyond(query, key) || !is_seen(s, i, j)) continue;
        fail<PositionError>(function, "the relative table has the distances key - query from ",
                            columns.min_offset(), " to ", columns.end() - 1, ", but the query at ",
                            query, " attends to the key at ", key);
      }
    }
  }
}

/// Checks a relative bias before anything is written.
template <Scalar T>
void check_relative(const char* function, const RelativeBias<T>& bias, const BiasCall<T>& call) {
  const HeadsView<const T>& q = call.q;
  const RelativeIndex& index = bias.index;
  if (index.order != RelativeOrder::KeyMinusQuery && index.order != RelativeOrder::QueryMinusKey) {
    fail<ConfigError>(function,
                      "RelativeIndex::order must be set to KeyMinusQuery or QueryMinusKey");
  }
  if (index.beyond != BeyondTable::Nearest && index.beyond != BeyondTable::Nothing &&
      index.beyond != BeyondTable::Refused) {
    fail<ConfigError>(function, "RelativeIndex::beyond must be set to Nearest, Nothing or Refused");
  }
  if (bias.scale != RelativeScale::Scaled && bias.scale != RelativeScale::Unscaled) {
    fail<ConfigError>(function, "RelativeBias::scale must be set to Scaled or Unscaled");
  }
  if (!is_present(bias.table) && !is_present(bias.key_table)) {
    fail<ConfigError>(function, "RelativeBias needs a table, a key_table or both");
  }
  const HeadsView<const T>& x = is_present(bias.queries) ? bias.queries : q;
  check_optional_extents(function, "RelativeBias::queries", bias.queries);
  if (x.batch != q.batch || x.seq != q.seq || x.heads != q.heads) {
    fail<ShapeError>(function, "RelativeBias::queries ", x.extents(),
                     " must have the batch, length and heads of q ", q.extents());
  }
  check_optional_extents(function, "RelativeBias::table", bias.table);
  const Index rows = is_present(bias.table) ? bias.table.seq : bias.key_table.seq;
  const auto check_table = [&](const char* name, const HeadsView<const T>& table, Index dim) {
    if (!is_present(table)) return;
    check_extents(function, name, table);
    if (table.batch != 1 || table.seq != rows || (table.heads != 1 && table.heads != q.heads) ||
        table.dim != dim) {
      fail<ShapeError>(function, name, " ", table.extents(), " must be [1, ", rows, ", 1 or ",
                       q.heads, ", ", dim, "]");
    }
  };
  check_table("RelativeBias::table", bias.table, x.dim);
  check_table("RelativeBias::key_table", bias.key_table, q.dim);
  if (rows < 1) fail<ShapeError>(function, "a relative table must have at least one row");
  // Columns are stored as 32-bit integers.
  constexpr Index max_rows = (std::numeric_limits<std::int32_t>::max)();
  if (rows > max_rows) {
    fail<ShapeError>(function, "a relative table must have at most ", max_rows, " rows but has ",
                     rows);
  }
  constexpr Index limit = Index{1} << 52;
  if (index.first < -limit || index.first > limit ||
      static_cast<Index>(index.rows.size()) > limit) {
    fail<PositionError>(function, "RelativeIndex::first must lie within +-2^52 but is ",
                        index.first);
  }
  for (const Index row : index.rows) {
    if (row < 0 || row >= rows) {
      fail<ShapeError>(function, "RelativeIndex::rows must lie within the table's ", rows,
                       " rows but one is ", row);
    }
  }
  if (index.beyond == BeyondTable::Refused && call.shape.has_scores()) {
    check_table_range(function, columns_of(bias), call.geometry, call.masks, q.heads);
  }
}

}  // namespace detail
POSENC_END
