// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/detail/kv_block_tables.hpp>
#include <posenc/kv/kv_block_pool.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <type_traits>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Pointers to the keys and values of a tile, of one head or, in a saved tile, of all heads.
/// `has_nonfinite` is nonzero if a value is NaN or infinite, so that zeroed memory is a valid tile.
template <class S>
struct TilePointers {
  S* keys = nullptr;
  S* values = nullptr;
  std::conditional_t<std::is_const_v<S>, const char, char>* has_nonfinite = nullptr;
};

/// Memory of a KvCache. It locates key j of a sequence and does not know which keys are stored.
///   keys   [sequences][heads][capacity / panel_lanes], then as in a KvTile; head stride key_head_stride_
///   values [sequences][heads][capacity][padded_value_dim(Dv)]; head stride value_head_stride_
/// Key j is stored at j mod capacity. On a pool each tile of a sequence is one block: keys
/// [heads][tile_keys / panel_lanes].., values [heads][tile_keys].., and `has_nonfinite` [heads].
/// Rows after the last key are not read. Their values are zero in the panel of the last key, unless
/// blocks_.stale_end() is larger, because appending to lines that have just been zeroed is not slower.
template <class Tier, Scalar S>
class KvStorage {
 public:
  using Real = Compute<S>;

  ///   pool: nullptr for memory that the cache owns
  KvStorage(Index sequences, Index heads, Index capacity, Index dim, Index value_dim,
            const KvBlockPool* pool)
      : heads_(heads),
        capacity_(capacity),
        dim_(dim),
        key_size_(packed_dim<S>(dim)),
        value_dim_(value_dim),
        value_stride_(padded_value_dim(value_dim)),
        key_head_stride_(padded_head_stride(key_size_, pool != nullptr)),
        value_head_stride_(padded_head_stride(value_stride_, pool != nullptr)) {
    if (pool != nullptr) {
      const auto numbers =
          static_cast<std::size_t>(key_elements_per_tile() + value_elements_per_tile());
      blocks_ = KvBlockTables(*pool, sequences, capacity / tile_keys,
                              numbers * sizeof(S) + static_cast<std::size_t>(heads));
      return;
    }
    const Index all_heads = sequences * heads;
    keys_ = AlignedVector<S>(at(all_heads * key_head_stride_), static_cast<S>(0.0F));
    values_ = AlignedVector<S>(at(all_heads * value_head_stride_), static_cast<S>(0.0F));
    nonfinite_ = std::vector<char>(at(all_heads * (capacity / tile_keys)));
  }

  Index heads() const noexcept { return heads_; }
  Index capacity() const noexcept { return capacity_; }
  Index dim() const noexcept { return dim_; }
  Index value_dim() const noexcept { return value_dim_; }

  /// Returns the bytes of this storage, without the blocks of a pool.
  std::size_t bytes() const noexcept {
    return (keys_.capacity() + values_.capacity()) * sizeof(S) + nonfinite_.capacity() +
           blocks_.bytes();
  }
  /// Returns the block tables, which hold blocks if the cache is on a pool.
  KvBlockTables& blocks() noexcept { return blocks_; }
  const KvBlockTables& blocks() const noexcept { return blocks_; }

  KvTile<S> tile(Index sequence, Index head, Index tile) const noexcept {
    const TilePointers<const S> found = locate(*this, sequence, head, tile);
    return {.keys = found.keys,
            .values = found.values,
            .value_stride = value_stride_,
            .finite = *found.has_nonfinite == 0};
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
    for_aligned_chunks(first, k.seq, panel_lanes, [&](Index j, Index n) {
      S* const to = panel(*this, sequence, head, j);
      for (Index h = 0; h < k.heads; ++h) {
        pack_panel<Tier>(k.row(0, j - first, h), k.seq_stride, j % panel_lanes, n, dim_,
                         to + h * key_head_stride_);
      }
    });
  }
  template <class T>
  void read_keys(Index sequence, Index head, Index first, HeadsView<T> k) const noexcept {
    for_aligned_chunks(first, k.seq, panel_lanes, [&](Index j, Index n) {
      const S* const from = panel(*this, sequence, head, j);
      for (Index h = 0; h < k.heads; ++h) {
        unpack_panel<Tier>(from + h * key_head_stride_, j % panel_lanes, n, dim_,
                           k.row(0, j - first, h), k.seq_stride);
      }
    });
  }

  /// Writes v [1, n, heads, Dv] as values first .. first + n - 1 of the heads from `head` on. The
  /// first row of a tile resets the tile's flag. The first row of a panel zeroes the rest of its
  /// panel.
  template <class T>
  void write_values(Index sequence, Index head, Index first, HeadsView<const T> v) noexcept {
    for_aligned_chunks(first, v.seq, tile_keys, [&](Index j, Index n) {
      const Index row = j % tile_keys, end = row + n;
      const Index panel = (end - 1) / panel_lanes * panel_lanes;
      for (Index h = 0; h < v.heads; ++h) {
        const TilePointers<S> tile = locate(*this, sequence, head + h, j / tile_keys);
        const bool finite = pack_values<Tier>(v.row(0, j - first, h), v.seq_stride, n, value_dim_,
                                              tile.values + row * value_stride_, value_stride_);
        if (row == 0 || !finite) *tile.has_nonfinite = !finite;
        if (row <= panel) zero_values(tile, end, panel + panel_lanes);
      }
    });
  }
  /// Zeroes the complete tile of value `first` and its flag, for all heads.
  void reset_value_tile(Index sequence, Index first) noexcept {
    for (Index h = 0; h < heads_; ++h) {
      const TilePointers<S> tile = locate(*this, sequence, h, first / tile_keys);
      zero_values(tile, 0, tile_keys);
      *tile.has_nonfinite = false;
    }
  }
  template <class T>
  void read_values(Index sequence, Index head, Index first, HeadsView<T> v) const noexcept {
    for_aligned_chunks(first, v.seq, tile_keys, [&](Index j, Index n) {
      for (Index h = 0; h < v.heads; ++h) {
        const S* const values = locate(*this, sequence, head + h, j / tile_keys).values;
        for (Index i = 0; i < n; ++i) {
          convert_row<Tier>(values + (j % tile_keys + i) * value_stride_, value_dim_,
                            v.row(0, j - first + i, h));
        }
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
      const TilePointers<S> cut = locate(*this, sequence, h, tile);
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
    for_aligned_chunks(from, end - from, tile_keys, [&](Index j, Index count) {
      const S* const values = locate(*this, sequence, head, j / tile_keys).values;
      for_aligned_chunks(j - down, count, tile_keys, [&](Index i, Index n) {
        const S* const source = values + (i + down) % tile_keys * value_stride_;
        std::copy(
            source, source + n * value_stride_,
            locate(*this, sequence, head, i / tile_keys).values + i % tile_keys * value_stride_);
      });
    });
    for (Index tile = to / tile_keys; tile * tile_keys < end - down; ++tile) {
      update_nonfinite_flag(locate(*this, sequence, head, tile), end - tile * tile_keys);
    }
  }

  /// Numbers of a tile, for all heads together.
  Index key_elements_per_tile() const noexcept { return heads_ * tile_keys * key_size_; }
  Index value_elements_per_tile() const noexcept { return heads_ * tile_keys * value_stride_; }

  void save_tile(Index sequence, Index tile, const TilePointers<S>& saved) const noexcept {
    for (Index h = 0; h < heads_; ++h) {
      copy_head(locate(*this, sequence, h, tile), nth_tile(saved, h));
    }
  }
  void restore_tile(Index sequence, Index tile, const TilePointers<S>& saved) noexcept {
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

  /// Calls visit(j, n) for the keys j .. j + n - 1 of each aligned chunk of `size` keys that the
  /// range touches.
  template <class Visit>
  static void for_aligned_chunks(Index first, Index count, Index size,
                                 const Visit& visit) noexcept {
    for (Index j = first; j < first + count;) {
      const Index n = (std::min)(first + count, (j / size + 1) * size) - j;
      visit(j, n);
      j += n;
    }
  }

  template <class Storage>
  using Number = std::conditional_t<std::is_const_v<Storage>, const S, S>;

  /// Returns the stride between heads whose keys, or values, have `size` numbers each. A token is
  /// written to all heads in turn. With a power of two as stride, their pages would compete for few
  /// TLB entries. Therefore large heads are padded by half a page and a cache line.
  Index padded_head_stride(Index size, bool on_pool) const noexcept {
    if (on_pool) return tile_keys * size;
    constexpr Index bytes = Index{sizeof(S)}, worth = Index{64} * 1024, gap = 2048 + 64;
    const Index numbers = capacity_ * size;
    return numbers * bytes >= worth ? numbers + gap / bytes : numbers;
  }

  /// Returns the pointers of a tile of one head. Only this function distinguishes a pool from owned
  /// memory.
  template <class Storage>
  static TilePointers<Number<Storage>> locate(Storage& storage, Index sequence, Index head,
                                              Index tile) noexcept {
    using Pointers = TilePointers<Number<Storage>>;
    if (storage.blocks_.has_pool()) {
      auto* const keys = reinterpret_cast<S*>(storage.blocks_.data(sequence, tile));
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
    return {tiles.keys + n * tile_keys * key_size_, tiles.values + n * tile_keys * value_stride_,
            tiles.has_nonfinite + n};
  }
  /// Returns the start of the panel that contains key j.
  template <class Storage>
  static Number<Storage>* panel(Storage& storage, Index sequence, Index head, Index j) noexcept {
    return locate(storage, sequence, head, j / tile_keys).keys +
           j % tile_keys / panel_lanes * panel_lanes * storage.key_size_;
  }

  template <class N>
  void copy_head(const TilePointers<N>& from, const TilePointers<S>& to) const noexcept {
    std::copy_n(from.keys, tile_keys * key_size_, to.keys);
    std::copy_n(from.values, tile_keys * value_stride_, to.values);
    *to.has_nonfinite = *from.has_nonfinite;
  }
  /// Zeroes the value rows [first, last).
  void zero_values(const TilePointers<S>& tile, Index first, Index last) noexcept {
    std::fill_n(tile.values + first * value_stride_, (last - first) * value_stride_,
                static_cast<S>(0.0F));
  }
  /// Recomputes the flag from a tile's first `rows` rows, at most tile_keys.
  void update_nonfinite_flag(const TilePointers<S>& tile, Index rows) noexcept {
    *tile.has_nonfinite =
        !all_finite<Tier>(tile.values, (std::min)(rows, tile_keys) * value_stride_);
  }

  Index heads_, capacity_, dim_, key_size_, value_dim_, value_stride_;
  Index key_head_stride_, value_head_stride_;  ///< strides between heads, see padded_head_stride()
  AlignedVector<S> keys_, values_;
  std::vector<char> nonfinite_;  ///< one flag per tile and head
  KvBlockTables blocks_;         ///< used instead of these on a pool
};

}  // namespace detail
POSENC_END
