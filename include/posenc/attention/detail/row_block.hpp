// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/attention/detail/masks.hpp>
#include <posenc/attention/detail/places.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/slots.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <bit>
#include <type_traits>

POSENC_BEGIN
namespace detail {

/// Keys of a tile that are visible to the rows of a block.
struct SeenTile {
  Index tile;
  KeyRange keys;  ///< hull of the rows' visible keys, counted from the sequence's first
  const ActiveLanes* of_strips;  ///< indexed by a strip's first row; memory passed to look_at()

  Index first_key() const noexcept { return tile * tile_keys; }
};

/// Rows of a block that may be read from the tensor unpacked.
enum class RowsInPlace {
  No,
  Dense,  ///< rows of one query, if its heads are contiguous like packed rows
  /// Dense, and rows of one head, row_padding() apart, if all keys are in one tile. Each row is
  /// then read once, and packing would take longer.
  Padded
};

/// Query block: some queries of a sequence for all heads that share a KV head. Their rows share
/// packed tiles.
/// Row r is query first + r / group, head r % group of the KV head, so that consecutive rows see
/// nearly the same keys. If a block has rows of several KV heads, these follow each other.
///   S: element type of stored keys
template <class Tier, Scalar T, class S>
class RowBlock {
 public:
  /// Element type of a query's channels as kernels read them.
  using Row = PackedRowElement<Tier, T, S>;
  static constexpr Index strip_rows = register_tile_rows<Tier>;

  /// Allocates memory for up to `rows` rows from `carver`.
  RowBlock(const AttentionPlan<T>& plan, Index rows, Carver& carver) noexcept
      : plan_(plan),
        packed_(carver.take<Row>(rows * row_size())),
        ranges_(carver.take<KeyRange>(rows)),
        queries_(carver.take<Index>(rows)),
        heads_(carver.take<Index>(rows)),
        positions_(carver.take<double>(rows)),
        temperatures_(plan.options.temperature ? carver.take<Compute<T>>(rows) : nullptr) {}

  /// Loads `count` queries of a sequence, starting at `first`, for `key_heads` KV heads, starting
  /// at `key_head`. Packs their rows and computes their visible ranges.
  ///   in_place: rows that may stay in the tensor, if kernels can read them there
  void take(const AttentionSequence& sequence, Index key_head, Index first, Index count,
            Index key_heads = 1, RowsInPlace in_place = RowsInPlace::No) noexcept {
    sequence_ = sequence;
    key_head_ = key_head;
    first_ = first;
    rows_of_key_head_ = count * plan_.group;
    rows_ = key_heads * rows_of_key_head_;
    keys_ = {sequence.end, sequence.begin};
    all_see_ = {sequence.begin, sequence.end};
    const HeadsView<const T>& q = plan_.q;
    const bool packed_in_tensor = rows_ == 1 || (count == 1 && q.head_stride == q.dim);
    const bool of_one_head = plan_.group == 1 && key_heads == 1;
    in_place_ = in_place != RowsInPlace::No && kernels_read_tensor() &&
                (packed_in_tensor ||
                 (in_place == RowsInPlace::Padded && of_one_head && sequence.stored <= tile_keys));
    row_padding_ = in_place_ && !packed_in_tensor ? q.seq_stride - q.dim : 0;
    name_rows(count, key_heads);
    for (Index r = 0; r < rows_; ++r) {
      if (!in_place_) {
        prefetch(channels((std::min)(r + prefetch_distance_rows, rows_ - 1)),
                 plan_.q.dim * Index{sizeof(T)});
        pack_row<Tier>(channels(r), plan_.q.dim, packed_ + r * row_size(), row_size());
      }
      if (r > 0 && queries_[r] == queries_[r - 1]) {
        ranges_[r] = ranges_[r - 1];
        continue;
      }
      ranges_[r] = plan_.places.range(sequence, query(r));
      all_see_.begin = (std::max)(all_see_.begin, ranges_[r].begin);
      all_see_.end = (std::min)(all_see_.end, ranges_[r].end);
      if (ranges_[r].empty()) continue;
      keys_.begin = (std::min)(keys_.begin, ranges_[r].begin);
      keys_.end = (std::max)(keys_.end, ranges_[r].end);
    }
    if (plan_.uses_positions) {
      for (Index n = 0; n < count; ++n) {
        positions_[n] = plan_.places.query_position(sequence, first + n);
      }
      for (Index n = 0; temperatures_ != nullptr && n < count; ++n) {
        temperatures_[n] = static_cast<Compute<T>>(plan_.options.temperature(positions_[n]));
      }
    }
    if (plan_.keeps_masked_scores) keys_ = {sequence.begin, sequence.stored};
  }

  const AttentionPlan<T>& plan() const noexcept { return plan_; }
  const AttentionSequence& sequence() const noexcept { return sequence_; }
  /// Returns the first KV head.
  Index key_head() const noexcept { return key_head_; }
  /// Returns the first query head; it is defined for a block without rows, too.
  Index first_head() const noexcept { return key_head_ * plan_.group; }
  Index rows() const noexcept { return rows_; }
  Index rows_of_key_head() const noexcept { return rows_of_key_head_; }
  /// Returns the query of row r, counted from the sequence's first.
  Index query(Index r) const noexcept { return first_ + query_in_block(r); }
  Index head(Index r) const noexcept { return heads_[r]; }
  /// Returns the positions of the block's queries, starting with that of row r.
  const double* positions(Index r = 0) const noexcept { return positions_ + query_in_block(r); }
  double position(Index r) const noexcept { return *positions(r); }
  /// Returns the temperature of row r; the call must have a temperature.
  Compute<T> temperature(Index r) const noexcept { return temperatures_[query_in_block(r)]; }
  const Row* packed(Index r) const noexcept {
    if constexpr (std::is_same_v<Row, T>) {
      if (in_place_) return channels(r);
    }
    return packed_ + r * row_size();
  }
  /// Returns the number of elements between the end of a row, as packed() returns it, and the next
  /// row.
  Index row_padding() const noexcept { return row_padding_; }

  /// Returns the hull of the keys that the rows see, counted from the sequence's first; empty if
  /// they see none.
  KeyRange keys() const noexcept { return keys_; }

  /// True if every row sees all keys of a tile. Most tiles of a long prompt are of this kind and
  /// need no tests row by row.
  bool all_see(Index first_key) const noexcept {
    return all_see_.begin <= first_key && first_key + tile_keys <= all_see_.end &&
           !plan_.masks.any();
  }

  /// Returns the number of rows of the strip that starts at row `of_head` of a KV head. In a block
  /// of more than four strips the partial strip comes first: kernels with few rows are slower, and
  /// the first rows of a causal block see the fewest keys. In a smaller block it comes last,
  /// because a full strip starts its prefetches earlier.
  Index rows_of_strip(Index of_head) const noexcept {
    const Index rest = rows_of_key_head_ % strip_rows;
    if (rows_of_key_head_ > 4 * strip_rows) return of_head == 0 && rest != 0 ? rest : strip_rows;
    return (std::min)(strip_rows, rows_of_key_head_ - of_head);
  }

  /// True if a strip is the first one of its KV head.
  bool begins_key_head(const Strip& strip) const noexcept {
    return strip.first % rows_of_key_head_ == 0;
  }

  /// Calls visit(strip) for all strips. The rows of a strip share a KV head.
  template <class Visit>
  void for_strips(const Visit& visit) const {
    for (Index r = 0, of_head = 0; r < rows_;) {
      const Strip strip{r, rows_of_strip(of_head)};
      visit(strip);
      r += strip.rows;
      of_head = of_head + strip.rows == rows_of_key_head_ ? 0 : of_head + strip.rows;
    }
  }

  /// True if all rows see the same keys: they are of a single query, and no mask can differ between
  /// its heads.
  bool has_uniform_visibility() const noexcept {
    return rows_of_key_head_ == plan_.group && !plan_.masks.any();
  }

  /// Calls visit(rows) once for all rows if has_uniform_visibility(), else for each strip. The rows
  /// of such a call may exceed a strip and belong to several KV heads, so visit() must process them
  /// row by row.
  template <class Visit>
  void for_uniform_rows(const Visit& visit) const {
    if (!has_uniform_visibility()) return for_strips(visit);
    visit(Strip{0, rows_});
  }

  /// Returns the maximum number of strips of a block of `rows` rows: each KV head may have a single
  /// row.
  static constexpr Index strips(Index rows) noexcept { return rows; }

  /// Returns the keys of a tile that are visible to the rows.
  ///   of_strips: memory for strips(rows())
  SeenTile look_at(Index tile, ActiveLanes* of_strips) const noexcept {
    const Index first_key = tile * tile_keys;
    if (all_see(first_key)) {
      for_strips([&](const Strip& strip) {
        of_strips[strip.first] = {0, tile_keys, (1u << tile_panels) - 1};
      });
      return {tile, {first_key, first_key + tile_keys}, of_strips};
    }
    KeyRange seen{tile_keys, 0};
    const bool found_once = has_uniform_visibility();
    ActiveLanes lanes;
    for_strips([&](const Strip& strip) {
      if (strip.first == 0 || !found_once) lanes = lanes_of(strip, first_key);
      of_strips[strip.first] = lanes;
      if (lanes.empty()) return;
      seen.begin = (std::min)(seen.begin, lanes.begin);
      seen.end = (std::max)(seen.end, lanes.end);
    });
    return {tile, {first_key + seen.begin, first_key + seen.end}, of_strips};
  }
  static ActiveLanes lanes_of(const SeenTile& seen, const Strip& strip) noexcept {
    return seen.of_strips[strip.first];
  }

  /// Returns the lanes of a tile in the visible range of row r; masks may hide some of them.
  KeyRange range_in_tile(Index r, Index first_key) const noexcept {
    return in_tile(ranges_[r], first_key);
  }

 private:
  Index query_in_block(Index r) const noexcept { return queries_[r]; }
  /// Stores each row's query and head, because divisions would take longer than loads.
  void name_rows(Index count, Index key_heads) const noexcept {
    Index r = 0;
    for (Index h = 0; h < key_heads; ++h) {
      const Index first_head = (key_head_ + h) * plan_.group;
      for (Index n = 0; n < count; ++n) {
        for (Index g = 0; g < plan_.group; ++g, ++r) {
          queries_[r] = n;
          heads_[r] = first_head + g;
        }
      }
    }
  }
  /// True if kernels can read the tensor's rows: they have the elements of packed rows, in the same
  /// order.
  bool kernels_read_tensor() const noexcept {
    return std::is_same_v<Row, T> && !has_paired_channels<Row> && row_size() == plan_.q.dim;
  }
  /// Returns the number of channels of a packed row.
  Index row_size() const noexcept { return stored_dim<S>(plan_.q.dim); }
  const T* channels(Index r) const noexcept {
    return plan_.q.row(sequence_.batch, sequence_.first_query + query(r), head(r));
  }

  /// Returns the active lanes of a strip in a tile.
  ActiveLanes lanes_of(const Strip& strip, Index first_key) const noexcept {
    ActiveLanes lanes{tile_keys, 0, 0};
    for (Index r = strip.first; r < strip.first + strip.rows; ++r) {
      const KeyRange range = range_in_tile(r, first_key);
      if (range.empty()) continue;
      lanes.begin = (std::min)(lanes.begin, range.begin);
      lanes.end = (std::max)(lanes.end, range.end);
    }
    if (plan_.keeps_masked_scores) {
      const KeyRange all = in_tile(keys_, first_key);
      lanes = {all.begin, all.end, 0};
    }
    for (Index n = lanes.begin / panel_lanes; n * panel_lanes < lanes.end; ++n) {
      if (plan_.keeps_masked_scores || sees_panel(strip, first_key, n)) lanes.panel_mask |= 1u << n;
    }
    if (!lanes.empty()) {
      const auto first = static_cast<Index>(std::countr_zero(lanes.panel_mask));
      const auto end = static_cast<Index>(std::bit_width(lanes.panel_mask));
      lanes.begin = (std::max)(lanes.begin, first * panel_lanes);
      lanes.end = (std::min)(lanes.end, end * panel_lanes);
    }
    return lanes;
  }

  /// True if masks leave some key of the panel visible to the strip.
  bool sees_panel(const Strip& strip, Index first_key, Index panel) const noexcept {
    if (!plan_.masks.any()) return true;
    for (Index r = strip.first; r < strip.first + strip.rows; ++r) {
      const KeyRange range = range_in_tile(r, first_key);
      const Index begin = (std::max)(range.begin, panel * panel_lanes);
      const Index end = (std::min)(range.end, (panel + 1) * panel_lanes);
      if (begin < end &&
          plan_.masks.show_any(sequence_, head(r), query(r), first_key + begin, end - begin)) {
        return true;
      }
    }
    return false;
  }

  static KeyRange in_tile(const KeyRange& range, Index first_key) noexcept {
    return {(std::clamp)(range.begin - first_key, Index{0}, tile_keys),
            (std::clamp)(range.end - first_key, Index{0}, tile_keys)};
  }

  const AttentionPlan<T>& plan_;
  Row* packed_;
  KeyRange* ranges_;
  Index* queries_;  ///< query of each row, counted from the block's first
  Index* heads_;    ///< head of each row
  double* positions_;
  Compute<T>* temperatures_;
  AttentionSequence sequence_{};
  Index key_head_ = 0, first_ = 0, rows_ = 0, rows_of_key_head_ = 1;
  KeyRange keys_{}, all_see_{};
  Index row_padding_ = 0;
  bool in_place_ = false;
};

}  // namespace detail
POSENC_END
