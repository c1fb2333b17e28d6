// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/attention/detail/attention_plan.hpp>
#include <posenc/attention/detail/masks.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
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
struct TileVisibility {
  Index tile;
  KeyRange keys;  ///< hull of the rows' visible keys, counted from the sequence's first
  /// Active lanes of a strip, at the index of its first row; memory of visibility_of()'s caller.
  const ActiveLanes* strip_lanes;

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

/// Queries of a block: queries first_query .. first_query + queries - 1 of a sequence, for KV heads
/// first_kv_head .. first_kv_head + kv_heads - 1.
struct BlockQueries {
  AttentionSequence sequence;
  Index first_kv_head = 0, kv_heads = 1;
  Index first_query = 0, queries = 0;  ///< counted from the sequence's first query
};

/// Query block: some queries of a sequence for all heads that share a KV head. Their rows share
/// packed tiles.
/// Row r is query first + r / group, head r % group of the KV head, so that consecutive rows see
/// nearly the same keys. If a block has rows of several KV heads, these follow each other.
///   S: element type of stored keys
template <class Tier, Scalar T, class S>
class QueryBlock {
 public:
  /// Element type of a query's channels as kernels read them.
  using Row = PackedRowElement<Tier, T, S>;
  static constexpr Index strip_rows = register_tile_rows<Tier>;

  /// Allocates memory for up to `rows` rows from `allocator`.
  QueryBlock(const AttentionPlan<T>& plan, Index rows, ArenaAllocator& allocator) noexcept
      : plan_(plan),
        packed_(allocator.allocate<Row>(rows * row_size())),
        ranges_(allocator.allocate<KeyRange>(rows)),
        queries_(allocator.allocate<Index>(rows)),
        heads_(allocator.allocate<Index>(rows)),
        positions_(allocator.allocate<double>(rows)),
        temperatures_(plan.options.temperature ? allocator.allocate<Compute<T>>(rows) : nullptr) {}

  /// Packs the rows of some queries, and computes their visible ranges.
  ///   in_place: rows that may stay in the tensor, if kernels can read them there
  void load_queries(const BlockQueries& loaded, RowsInPlace in_place = RowsInPlace::No) noexcept {
    const AttentionSequence& sequence = loaded.sequence;
    const Index first = loaded.first_query, count = loaded.queries, kv_heads = loaded.kv_heads;
    sequence_ = sequence;
    kv_head_ = loaded.first_kv_head;
    first_ = first;
    rows_per_kv_head_ = count * plan_.group;
    rows_ = kv_heads * rows_per_kv_head_;
    visible_keys_ = {sequence.end, sequence.begin};
    common_keys_ = {sequence.begin, sequence.end};
    const HeadsView<const T>& q = plan_.q;
    const bool packed_in_tensor = rows_ == 1 || (count == 1 && q.head_stride == q.dim);
    const bool is_single_head = plan_.group == 1 && kv_heads == 1;
    is_unpacked_ = in_place != RowsInPlace::No && can_skip_packing() &&
                   (packed_in_tensor || (in_place == RowsInPlace::Padded && is_single_head &&
                                         sequence.stored <= tile_keys));
    row_padding_ = is_unpacked_ && !packed_in_tensor ? q.seq_stride - q.dim : 0;
    fill_row_indices(count, kv_heads);
    for (Index r = 0; r < rows_; ++r) {
      if (!is_unpacked_) {
        prefetch(channels((std::min)(r + prefetch_distance_rows, rows_ - 1)),
                 plan_.q.dim * Index{sizeof(T)});
        pack_row<Tier>(channels(r), plan_.q.dim, packed_ + r * row_size(), row_size());
      }
      if (r > 0 && queries_[r] == queries_[r - 1]) {
        ranges_[r] = ranges_[r - 1];
        continue;
      }
      ranges_[r] = plan_.geometry.visible_range(sequence, query(r));
      common_keys_.begin = (std::max)(common_keys_.begin, ranges_[r].begin);
      common_keys_.end = (std::min)(common_keys_.end, ranges_[r].end);
      if (ranges_[r].empty()) continue;
      visible_keys_.begin = (std::min)(visible_keys_.begin, ranges_[r].begin);
      visible_keys_.end = (std::max)(visible_keys_.end, ranges_[r].end);
    }
    if (plan_.uses_positions) {
      for (Index n = 0; n < count; ++n) {
        positions_[n] = plan_.geometry.query_position(sequence, first + n);
      }
      for (Index n = 0; temperatures_ != nullptr && n < count; ++n) {
        temperatures_[n] = static_cast<Compute<T>>(plan_.options.temperature(positions_[n]));
      }
    }
    if (plan_.keeps_masked_scores) visible_keys_ = {sequence.begin, sequence.stored};
  }

  const AttentionPlan<T>& plan() const noexcept { return plan_; }
  const AttentionSequence& sequence() const noexcept { return sequence_; }
  /// Returns the first KV head.
  Index kv_head() const noexcept { return kv_head_; }
  /// Returns the first query head; it is defined for a block without rows, too.
  Index first_head() const noexcept { return kv_head_ * plan_.group; }
  Index rows() const noexcept { return rows_; }
  Index rows_per_kv_head() const noexcept { return rows_per_kv_head_; }
  /// Returns the query of row r, counted from the sequence's first.
  Index query(Index r) const noexcept { return first_ + query_index(r); }
  Index head(Index r) const noexcept { return heads_[r]; }
  /// Returns the positions of the block's queries, starting with that of row r.
  const double* positions(Index r = 0) const noexcept { return positions_ + query_index(r); }
  double position(Index r) const noexcept { return *positions(r); }
  /// Returns the temperature of row r; the call must have a temperature.
  Compute<T> temperature(Index r) const noexcept { return temperatures_[query_index(r)]; }
  const Row* packed(Index r) const noexcept {
    if constexpr (std::is_same_v<Row, T>) {
      if (is_unpacked_) return channels(r);
    }
    return packed_ + r * row_size();
  }
  /// Returns the number of elements between the end of a row, as packed() returns it, and the next
  /// row.
  Index row_padding() const noexcept { return row_padding_; }

  /// Returns the hull of the keys that the rows see, counted from the sequence's first; empty if
  /// they see none.
  KeyRange visible_keys() const noexcept { return visible_keys_; }

  /// True if every row sees all keys of a tile. Most tiles of a long prompt are of this kind and
  /// need no tests row by row.
  bool is_fully_visible(Index first_key) const noexcept {
    return common_keys_.begin <= first_key && first_key + tile_keys <= common_keys_.end &&
           !plan_.masks.is_active();
  }

  /// Returns the number of rows of the strip that starts at row `row_in_head` of a KV head. In a
  /// block of more than four strips the partial strip comes first: kernels with few rows are
  /// slower, and the first rows of a causal block see the fewest keys. In a smaller block it comes
  /// last, because a full strip starts its prefetches earlier.
  Index strip_size_at(Index row_in_head) const noexcept {
    const Index rest = rows_per_kv_head_ % strip_rows;
    if (rows_per_kv_head_ > 4 * strip_rows)
      return row_in_head == 0 && rest != 0 ? rest : strip_rows;
    return (std::min)(strip_rows, rows_per_kv_head_ - row_in_head);
  }

  /// True if a strip is the first one of its KV head.
  bool is_first_of_kv_head(const Strip& strip) const noexcept {
    return strip.first % rows_per_kv_head_ == 0;
  }

  /// Calls visit(strip) for all strips. The rows of a strip share a KV head.
  template <class Visit>
  void for_strips(const Visit& visit) const {
    for (Index r = 0, row_in_head = 0; r < rows_;) {
      const Strip strip{r, strip_size_at(row_in_head)};
      visit(strip);
      r += strip.rows;
      row_in_head = row_in_head + strip.rows == rows_per_kv_head_ ? 0 : row_in_head + strip.rows;
    }
  }

  /// Calls visit(strip, lanes) for all strips that see keys of a tile.
  template <class Visit>
  void for_visible_strips(const TileVisibility& seen, const Visit& visit) const {
    for_strips([&](const Strip& strip) {
      const ActiveLanes lanes = active_lanes(seen, strip);
      if (!lanes.empty()) visit(strip, lanes);
    });
  }

  /// True if all rows see the same keys: they are of a single query, and no mask can differ between
  /// its heads.
  bool has_uniform_visibility() const noexcept {
    return rows_per_kv_head_ == plan_.group && !plan_.masks.is_active();
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
  ///   strip_lanes: memory for strips(rows())
  TileVisibility visibility_of(Index tile, ActiveLanes* strip_lanes) const noexcept {
    const Index first_key = tile * tile_keys;
    if (is_fully_visible(first_key)) {
      for_strips([&](const Strip& strip) {
        strip_lanes[strip.first] = {0, tile_keys, (1u << tile_panels) - 1};
      });
      return {tile, {first_key, first_key + tile_keys}, strip_lanes};
    }
    KeyRange seen{tile_keys, 0};
    const bool found_once = has_uniform_visibility();
    ActiveLanes lanes;
    for_strips([&](const Strip& strip) {
      if (strip.first == 0 || !found_once) lanes = active_lanes(strip, first_key);
      strip_lanes[strip.first] = lanes;
      if (lanes.empty()) return;
      seen.begin = (std::min)(seen.begin, lanes.begin);
      seen.end = (std::max)(seen.end, lanes.end);
    });
    return {tile, {first_key + seen.begin, first_key + seen.end}, strip_lanes};
  }
  static ActiveLanes active_lanes(const TileVisibility& seen, const Strip& strip) noexcept {
    return seen.strip_lanes[strip.first];
  }

  /// Returns the lanes of a tile in the visible range of row r; masks may hide some of them.
  KeyRange clamped_range(Index r, Index first_key) const noexcept {
    return clamp_to_tile(ranges_[r], first_key);
  }

 private:
  Index query_index(Index r) const noexcept { return queries_[r]; }
  /// Stores each row's query and head, because divisions would take longer than loads.
  void fill_row_indices(Index count, Index kv_heads) const noexcept {
    Index r = 0;
    for (Index h = 0; h < kv_heads; ++h) {
      const Index first_head = (kv_head_ + h) * plan_.group;
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
  bool can_skip_packing() const noexcept {
    return std::is_same_v<Row, T> && !has_paired_channels<Row> && row_size() == plan_.q.dim;
  }
  /// Returns the number of channels of a packed row.
  Index row_size() const noexcept { return packed_dim<S>(plan_.q.dim); }
  const T* channels(Index r) const noexcept {
    return plan_.q.row(sequence_.batch, sequence_.first_query + query(r), head(r));
  }

  /// Returns the active lanes of a strip in a tile.
  ActiveLanes active_lanes(const Strip& strip, Index first_key) const noexcept {
    ActiveLanes lanes{tile_keys, 0, 0};
    for (Index r = strip.first; r < strip.first + strip.rows; ++r) {
      const KeyRange range = clamped_range(r, first_key);
      if (range.empty()) continue;
      lanes.begin = (std::min)(lanes.begin, range.begin);
      lanes.end = (std::max)(lanes.end, range.end);
    }
    if (plan_.keeps_masked_scores) {
      const KeyRange all = clamp_to_tile(visible_keys_, first_key);
      lanes = {all.begin, all.end, 0};
    }
    for (Index n = lanes.begin / panel_lanes; n * panel_lanes < lanes.end; ++n) {
      if (plan_.keeps_masked_scores || is_panel_visible(strip, first_key, n))
        lanes.panel_mask |= 1u << n;
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
  bool is_panel_visible(const Strip& strip, Index first_key, Index panel) const noexcept {
    if (!plan_.masks.is_active()) return true;
    for (Index r = strip.first; r < strip.first + strip.rows; ++r) {
      const KeyRange range = clamped_range(r, first_key);
      const Index begin = (std::max)(range.begin, panel * panel_lanes);
      const Index end = (std::min)(range.end, (panel + 1) * panel_lanes);
      if (begin < end && plan_.masks.is_any_visible(sequence_, head(r), query(r), first_key + begin,
                                                    end - begin)) {
        return true;
      }
    }
    return false;
  }

  static KeyRange clamp_to_tile(const KeyRange& range, Index first_key) noexcept {
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
  Index kv_head_ = 0, first_ = 0, rows_ = 0, rows_per_kv_head_ = 1;
  KeyRange visible_keys_{}, common_keys_{};
  Index row_padding_ = 0;
  bool is_unpacked_ = false;
};

}  // namespace detail
POSENC_END
