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

/// What the rows of a block see of a tile.
struct SeenTile {
  Index tile;
  KeyRange keys;  ///< outside of which no row sees anything, counted from the sequence's first
  const Lanes* of_strips;  ///< at a strip's first row, in the memory that look_at() was given

  Index first_key() const noexcept { return tile * tile_keys; }
};

/// Rows of a block that need not be packed.
enum class RowsInPlace {
  No,
  Dense,  ///< those of one query, if its heads lie as packed rows do
  Padded  ///< also those of one head, row_padding() apart, if all keys are in one tile: to pack what is read once takes longer
};

/// Some queries of a sequence, for all heads that share a key head: rows that go through attention
/// together. Row r is query first + r / group, head r % group of the key head's, so that rows that see
/// nearly the same keys are neighbours. Rows of several key heads, where a block has them, follow each
/// other. S is what keys are stored as.
template <class Tier, Scalar T, class S>
class RowBlock {
 public:
  /// What a query's channels are in for the kernels.
  using Row = PackedRow<Tier, T, S>;
  static constexpr Index strip_rows = kernel_rows<Tier>;

  /// A block of up to `rows` rows, in memory that lasts as long as the carver's.
  RowBlock(const AttentionPlan<T>& plan, Index rows, Carver& carver) noexcept
      : plan_(plan),
        packed_(carver.take<Row>(rows * row_size())),
        ranges_(carver.take<KeyRange>(rows)),
        queries_(carver.take<Index>(rows)),
        heads_(carver.take<Index>(rows)),
        positions_(carver.take<double>(rows)),
        temperatures_(plan.options.temperature ? carver.take<Compute<T>>(rows) : nullptr) {}

  /// Takes `count` queries of a sequence from `first` on, and key heads from `key_head` on.
  ///   in_place: which rows may stay in the tensor, where kernels can read them there
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
        prefetch(channels((std::min)(r + rows_ahead, rows_ - 1)), plan_.q.dim * Index{sizeof(T)});
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
  /// The first one.
  Index key_head() const noexcept { return key_head_; }
  /// The query head that comes first; a block without rows has one, too.
  Index first_head() const noexcept { return key_head_ * plan_.group; }
  Index rows() const noexcept { return rows_; }
  Index rows_of_key_head() const noexcept { return rows_of_key_head_; }
  /// Of row r, counted from the sequence's first.
  Index query(Index r) const noexcept { return first_ + query_in_block(r); }
  Index head(Index r) const noexcept { return heads_[r]; }
  /// Of the block's queries from row r's on, one after the other; of row r.
  const double* positions(Index r = 0) const noexcept { return positions_ + query_in_block(r); }
  double position(Index r) const noexcept { return *positions(r); }
  /// Of row r, where there is one.
  Compute<T> temperature(Index r) const noexcept { return temperatures_[query_in_block(r)]; }
  const Row* packed(Index r) const noexcept {
    if constexpr (std::is_same_v<Row, T>) {
      if (in_place_) return channels(r);
    }
    return packed_ + r * row_size();
  }
  /// Numbers between the end of a row, as packed() gives them, and the next one.
  Index row_padding() const noexcept { return row_padding_; }

  /// Keys that some row sees, counted from the sequence's first; empty where there are none.
  KeyRange keys() const noexcept { return keys_; }

  /// Whether every row sees all keys of a tile: most tiles of a long prompt, of which nothing need be asked row
  /// by row.
  bool all_see(Index first_key) const noexcept {
    return all_see_.begin <= first_key && first_key + tile_keys <= all_see_.end &&
           !plan_.masks.any();
  }

  /// Of the strip that begins with row `of_head` of a key head's rows. Rows that do not fill a strip come first:
  /// kernels of few rows are slower, and the first rows along a diagonal see the fewest keys. Of a few strips alone
  /// they come last: a diagonal matters little there, and a whole strip asks for memory earlier.
  Index rows_of_strip(Index of_head) const noexcept {
    const Index rest = rows_of_key_head_ % strip_rows;
    if (rows_of_key_head_ > 4 * strip_rows) return of_head == 0 && rest != 0 ? rest : strip_rows;
    return (std::min)(strip_rows, rows_of_key_head_ - of_head);
  }

  /// Whether a strip's rows are the first ones of their key head.
  bool begins_key_head(const Strip& strip) const noexcept {
    return strip.first % rows_of_key_head_ == 0;
  }

  /// Calls visit(strip) for all rows. A strip's rows share a key head.
  template <class Visit>
  void for_strips(const Visit& visit) const {
    for (Index r = 0, of_head = 0; r < rows_;) {
      const Strip strip{r, rows_of_strip(of_head)};
      visit(strip);
      r += strip.rows;
      of_head = of_head + strip.rows == rows_of_key_head_ ? 0 : of_head + strip.rows;
    }
  }

  /// True if all rows see the same keys: those of a single query, whose heads no mask tells apart.
  bool has_uniform_visibility() const noexcept {
    return rows_of_key_head_ == plan_.group && !plan_.masks.any();
  }

  /// Calls visit(rows) for all rows at once if has_uniform_visibility(), else for each strip. All may be more than a
  /// strip has, and of several key heads: for stages that go row by row.
  template <class Visit>
  void for_uniform_rows(const Visit& visit) const {
    if (!has_uniform_visibility()) return for_strips(visit);
    visit(Strip{0, rows_});
  }

  /// The most strips that a block of `rows` rows has, for a key head may have one row alone.
  static constexpr Index strips(Index rows) noexcept { return rows; }

  /// What the rows see of a tile.
  ///   of_strips: memory for strips(rows())
  SeenTile look_at(Index tile, Lanes* of_strips) const noexcept {
    const Index first_key = tile * tile_keys;
    if (all_see(first_key)) {
      for_strips([&](const Strip& strip) {
        of_strips[strip.first] = {0, tile_keys, (1u << tile_panels) - 1};
      });
      return {tile, {first_key, first_key + tile_keys}, of_strips};
    }
    KeyRange seen{tile_keys, 0};
    const bool found_once = has_uniform_visibility();
    Lanes lanes;
    for_strips([&](const Strip& strip) {
      if (strip.first == 0 || !found_once) lanes = lanes_of(strip, first_key);
      of_strips[strip.first] = lanes;
      if (lanes.empty()) return;
      seen.begin = (std::min)(seen.begin, lanes.begin);
      seen.end = (std::max)(seen.end, lanes.end);
    });
    return {tile, {first_key + seen.begin, first_key + seen.end}, of_strips};
  }
  static Lanes lanes_of(const SeenTile& seen, const Strip& strip) noexcept {
    return seen.of_strips[strip.first];
  }

  /// Lanes of a tile that row r sees, but for masks.
  KeyRange range_in_tile(Index r, Index first_key) const noexcept {
    return in_tile(ranges_[r], first_key);
  }

 private:
  Index query_in_block(Index r) const noexcept { return queries_[r]; }
  /// Notes each row's query and head, for whoever asks row by row: divisions take longer.
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
  /// Whether kernels can read the tensor's rows: they hold what packed ones do, in their order.
  bool kernels_read_tensor() const noexcept {
    return std::is_same_v<Row, T> && !in_pairs<Row> && row_size() == plan_.q.dim;
  }
  /// Channels of a packed row.
  Index row_size() const noexcept { return stored_dim<S>(plan_.q.dim); }
  const T* channels(Index r) const noexcept {
    return plan_.q.row(sequence_.batch, sequence_.first_query + query(r), head(r));
  }

  /// What the rows of a strip see of a tile.
  Lanes lanes_of(const Strip& strip, Index first_key) const noexcept {
    Lanes lanes{tile_keys, 0, 0};
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
      if (plan_.keeps_masked_scores || sees_panel(strip, first_key, n)) lanes.panels |= 1u << n;
    }
    if (!lanes.empty()) {
      const auto first = static_cast<Index>(std::countr_zero(lanes.panels));
      const auto end = static_cast<Index>(std::bit_width(lanes.panels));
      lanes.begin = (std::max)(lanes.begin, first * panel_lanes);
      lanes.end = (std::min)(lanes.end, end * panel_lanes);
    }
    return lanes;
  }

  /// Whether the masks show a strip anything of a panel.
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
  Index* queries_;  ///< of each row, counted from the block's first
  Index* heads_;    ///< of each row
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
