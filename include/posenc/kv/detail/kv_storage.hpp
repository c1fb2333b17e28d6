// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/detail/kv_block_tables.hpp>
#include <posenc/kv/detail/kv_layout.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/kv/kv_format.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Memory of a KvCache. It locates key j of a sequence and does not know which keys are stored.
///   keys   [sequences][heads][capacity][key_size]; head stride key_head_stride_
///   values [sequences][heads][capacity][value_size]; head stride value_head_stride_
/// Key j is stored at j mod capacity. On a pool each tile of a sequence is one block: keys
/// [heads][tile_keys].., values [heads][tile_keys].., and `has_nonfinite` [heads]. KvLayout defines
/// the elements of a tile.
/// Rows after the last key are not read. Their values are zero in the panel of the last key, unless
/// blocks_.stale_end() is larger, because appending to lines that have just been zeroed is not
/// slower.
template <class Tier, KvFormat S>
class KvStorage {
 public:
  using Layout = KvLayout<Tier, S>;
  using Element = typename Layout::Element;
  using Real = typename Layout::Real;

  ///   pool: nullptr for memory that the cache owns
  KvStorage(Index sequences, Index heads, Index capacity, Index dim, Index value_dim,
            const KvBlockPool* pool)
      : heads_(heads),
        capacity_(capacity),
        layout_{dim, value_dim},
        key_head_stride_(padded_head_stride(layout_.key_size, pool != nullptr)),
        value_head_stride_(padded_head_stride(layout_.value_size, pool != nullptr)) {
    if (pool != nullptr) {
      const auto numbers = at(key_elements_per_tile() + value_elements_per_tile());
      blocks_ = KvBlockTables(*pool, sequences, capacity / tile_keys,
                              numbers * sizeof(Element) + at(heads));
      return;
    }
    const Index all_heads = sequences * heads;
    keys_ = AlignedVector<Element>(at(all_heads * key_head_stride_), Layout::zero());
    values_ = AlignedVector<Element>(at(all_heads * value_head_stride_), Layout::zero());
    nonfinite_ = std::vector<char>(at(all_heads * (capacity / tile_keys)));
  }

  Index heads() const noexcept { return heads_; }
  Index capacity() const noexcept { return capacity_; }
  Index dim() const noexcept { return layout_.dim; }
  Index value_dim() const noexcept { return layout_.value_dim; }
  const Layout& layout() const noexcept { return layout_; }

  /// Returns the bytes of this storage, without the blocks of a pool.
  std::size_t bytes() const noexcept {
    return (keys_.capacity() + values_.capacity()) * sizeof(Element) + nonfinite_.capacity() +
           blocks_.bytes();
  }
  /// Returns the block tables, which hold blocks if the cache is on a pool.
  KvBlockTables& blocks() noexcept { return blocks_; }
  const KvBlockTables& blocks() const noexcept { return blocks_; }

  TilePointers<const Element> tile(Index sequence, Index head, Index tile) const noexcept {
    return locate(*this, sequence, head, tile);
  }

  /// True if writing to a tile changes keys that the sequence holds, or is possible only after
  /// replace_shared().
  bool overwrites(const PendingWrite& written, Index tile) const noexcept {
    const KeyRange preserved = tiles_of(written.preserved());
    if (tile >= preserved.begin && tile < preserved.end) {
      return blocks_.has_pool() && blocks_.shares_preserved(written.sequence);
    }
    return overlaps_in_memory(written.old, tile, capacity_ / tile_keys);
  }
  // Reads and writes take some heads of some tokens, so that heads and tiles can be distributed
  // over threads. A call takes several heads, because locating a tile costs more than writing the
  // numbers of one head.

  /// Writes k [1, n, heads, D] as keys first .. first + n - 1 of the heads from `head` on.
  template <class T>
  void write_keys(Index sequence, Index head, Index first, HeadsView<const T> k) noexcept {
    for_aligned_chunks({first, first + k.seq}, panel_lanes, [&](Index j, Index n) {
      Element* const to = locate(*this, sequence, head, j / tile_keys).keys;
      for (Index h = 0; h < k.heads; ++h) {
        layout_.write_keys(k.row(0, j - first, h), k.seq_stride, j % tile_keys, n,
                           to + h * key_head_stride_);
      }
    });
  }
  template <class T>
  void read_keys(Index sequence, Index head, Index first, HeadsView<T> k) const noexcept {
    for_aligned_chunks({first, first + k.seq}, panel_lanes, [&](Index j, Index n) {
      const Element* const from = locate(*this, sequence, head, j / tile_keys).keys;
      for (Index h = 0; h < k.heads; ++h) {
        layout_.read_keys(from + h * key_head_stride_, j % tile_keys, n, k.row(0, j - first, h),
                          k.seq_stride);
      }
    });
  }

  /// Writes v [1, n, heads, Dv] as values first .. first + n - 1 of the heads from `head` on. The
  /// first row of a tile resets the tile's flag. The first row of a panel zeroes the rest of its
  /// panel.
  template <class T>
  void write_values(Index sequence, Index head, Index first, HeadsView<const T> v) noexcept {
    for_aligned_chunks({first, first + v.seq}, tile_keys, [&](Index j, Index n) {
      const Index row = j % tile_keys, end = row + n;
      const Index panel = (end - 1) / panel_lanes * panel_lanes;
      for (Index h = 0; h < v.heads; ++h) {
        const TilePointers<Element> tile = locate(*this, sequence, head + h, j / tile_keys);
        const bool finite =
            layout_.write_values(v.row(0, j - first, h), v.seq_stride, row, n, tile.values);
        if (row == 0 || !finite) *tile.has_nonfinite = !finite;
        if (row <= panel) zero_values(tile, end, panel + panel_lanes);
      }
    });
  }
  /// Zeroes the complete tile of value `first` and its flag, for all heads.
  void reset_value_tile(Index sequence, Index first) noexcept {
    for (Index h = 0; h < heads_; ++h) {
      const TilePointers<Element> tile = locate(*this, sequence, h, first / tile_keys);
      zero_values(tile, 0, tile_keys);
      *tile.has_nonfinite = false;
    }
  }
  template <class T>
  void read_values(Index sequence, Index head, Index first, HeadsView<T> v) const noexcept {
    for_aligned_chunks({first, first + v.seq}, tile_keys, [&](Index j, Index n) {
      for (Index h = 0; h < v.heads; ++h) {
        layout_.read_values(locate(*this, sequence, head + h, j / tile_keys).values, j % tile_keys,
                            n, v.row(0, j - first, h), v.seq_stride);
      }
    });
  }

  /// Zeroes the value rows [end, old_end) of the last tile. If the tile's block is shared, this is
  /// deferred until the sequence has a block of its own; see KvBlockTables::stale_end().
  void truncate_values(Index sequence, Index end, Index old_end) noexcept {
    const Index tile = end / tile_keys;
    if (blocks_.has_pool()) {
      old_end = (std::max)(old_end, blocks_.stale_end(sequence));
      const bool later = end % tile_keys != 0 && end < old_end && blocks_.shared(sequence, tile);
      blocks_.set_stale_end(sequence, later ? old_end : 0);
      if (later) return;
    }
    const Index last = (std::min)(old_end, (tile + 1) * tile_keys);
    if (end % tile_keys == 0 || end >= last) return;
    for (Index h = 0; h < heads_; ++h) {
      const TilePointers<Element> cut = locate(*this, sequence, h, tile);
      zero_values(cut, end % tile_keys, last - tile * tile_keys);
      if (*cut.has_nonfinite != 0) update_nonfinite_flag(cut, end % tile_keys);
    }
  }

  /// Moves values from .. end - 1 down to `to`, with to <= from; the range must not wrap around.
  void move_values(Index sequence, Index head, Index from, Index end, Index to) noexcept {
    // Without a move, the tile may be shared and hold stale values of this sequence, so it must not
    // be written.
    if (from == end) return;
    const Index down = from - to;
    for_aligned_chunks({from, end}, tile_keys, [&](Index j, Index count) {
      const Element* const values = locate(*this, sequence, head, j / tile_keys).values;
      for_aligned_chunks({j - down, j - down + count}, tile_keys, [&](Index i, Index n) {
        const Element* const source = values + (i + down) % tile_keys * layout_.value_size;
        std::copy(source, source + n * layout_.value_size,
                  locate(*this, sequence, head, i / tile_keys).values +
                      i % tile_keys * layout_.value_size);
      });
    });
    for (Index tile = to / tile_keys; tile * tile_keys < end - down; ++tile) {
      update_nonfinite_flag(locate(*this, sequence, head, tile), end - tile * tile_keys);
    }
  }

  /// Numbers of a tile, for all heads together.
  Index key_elements_per_tile() const noexcept { return heads_ * tile_keys * layout_.key_size; }
  Index value_elements_per_tile() const noexcept { return heads_ * tile_keys * layout_.value_size; }

  void save_tile(Index sequence, Index tile, const TilePointers<Element>& saved) const noexcept {
    for (Index h = 0; h < heads_; ++h) {
      copy_head(locate(*this, sequence, h, tile), nth_tile(saved, h));
    }
  }
  void restore_tile(Index sequence, Index tile, const TilePointers<Element>& saved) noexcept {
    for (Index h = 0; h < heads_; ++h) {
      copy_head(nth_tile(saved, h), locate(*this, sequence, h, tile));
    }
  }

  /// Copies a tile of one sequence to the same tile of another.
  void copy_tile(Index from, Index to, Index head, Index tile) noexcept {
    copy_head(locate(*this, from, head, tile), locate(*this, to, head, tile));
  }

 private:
  static std::size_t at(Index i) noexcept { return static_cast<std::size_t>(i); }

  template <class Storage>
  using Number = std::conditional_t<std::is_const_v<Storage>, const Element, Element>;

  /// Returns the stride between heads whose keys, or values, have `size` numbers each. A token is
  /// written to all heads in turn. With a power of two as stride, their pages would compete for few
  /// TLB entries. Therefore large heads are padded by half a page and a cache line.
  Index padded_head_stride(Index size, bool on_pool) const noexcept {
    if (on_pool) return tile_keys * size;
    constexpr Index bytes = Index{sizeof(Element)}, worth = Index{64} * 1024, gap = 2048 + 64;
    const Index numbers = capacity_ * size;
    return numbers * bytes >= worth ? numbers + gap / bytes : numbers;
  }

  /// Returns the pointers of a tile of one head, on a pool or in owned memory.
  template <class Storage>
  static TilePointers<Number<Storage>> locate(Storage& storage, Index sequence, Index head,
                                              Index tile) noexcept {
    using Pointers = TilePointers<Number<Storage>>;
    if (storage.blocks_.has_pool()) {
      auto* const keys = reinterpret_cast<Element*>(storage.blocks_.data(sequence, tile));
      auto* const values = keys + storage.key_elements_per_tile();
      auto* const has_nonfinite =
          reinterpret_cast<char*>(values + storage.value_elements_per_tile());
      return storage.nth_tile(Pointers{keys, values, has_nonfinite}, head);
    }
    const Index tiles = storage.capacity_ / tile_keys;
    const Index table_index = tile < tiles ? tile : tile % tiles;  // only a ring needs the division
    const Index nth = sequence * storage.heads_ + head;
    const Pointers first_tile{storage.keys_.data() + nth * storage.key_head_stride_,
                              storage.values_.data() + nth * storage.value_head_stride_,
                              storage.nonfinite_.data() + nth * tiles};
    return storage.nth_tile(first_tile, table_index);
  }
  /// Returns the pointers of the n-th of consecutive tiles of one head.
  template <class N>
  TilePointers<N> nth_tile(const TilePointers<N>& tiles, Index n) const noexcept {
    return {tiles.keys + n * tile_keys * layout_.key_size,
            tiles.values + n * tile_keys * layout_.value_size, tiles.has_nonfinite + n};
  }
  template <class N>
  void copy_head(const TilePointers<N>& from, const TilePointers<Element>& to) const noexcept {
    std::copy_n(from.keys, tile_keys * layout_.key_size, to.keys);
    std::copy_n(from.values, tile_keys * layout_.value_size, to.values);
    *to.has_nonfinite = *from.has_nonfinite;
  }
  /// Zeroes the value rows [first, last).
  void zero_values(const TilePointers<Element>& tile, Index first, Index last) noexcept {
    std::fill_n(tile.values + first * layout_.value_size, (last - first) * layout_.value_size,
                Layout::zero());
  }
  /// Recomputes the flag from a tile's first `rows` rows, at most tile_keys.
  void update_nonfinite_flag(const TilePointers<Element>& tile, Index rows) noexcept {
    *tile.has_nonfinite = !layout_.values_are_finite(tile.values, (std::min)(rows, tile_keys));
  }

  Index heads_, capacity_;
  Layout layout_;
  Index key_head_stride_, value_head_stride_;  ///< strides between heads, see padded_head_stride()
  AlignedVector<Element> keys_, values_;
  std::vector<char> nonfinite_;  ///< one flag per tile and head
  KvBlockTables blocks_;         ///< used instead of these on a pool
};

}  // namespace detail
POSENC_END
