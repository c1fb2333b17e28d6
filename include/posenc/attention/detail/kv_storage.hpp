// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/pack_panel.hpp>
#include <posenc/attention/detail/tile.hpp>
#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Where all heads' keys and values of one tile are set aside.
template <class S>
struct KeptTile {
  S* keys = nullptr;
  S* values = nullptr;
  char* finite = nullptr;
};

/// The memory of a KvCache: where key j of a sequence is, and nothing about which keys there are.
///   keys   [sequences][heads][capacity / panel_lanes], then as in a KeyTile
///   values [sequences][heads][capacity][padded_value_dim(Dv)]
/// Key j, whatever was there before, lies at j mod capacity. In a tile that was begun, rows of
/// values past the last key are zero.
template <class Tier, Scalar S>
class KvStorage {
 public:
  using Real = Compute<S>;

  KvStorage(Index sequences, Index heads, Index capacity, Index dim, Index value_dim)
      : heads_(heads),
        capacity_(capacity),
        dim_(dim),
        key_size_(stored_dim<S>(dim)),
        value_dim_(value_dim),
        value_stride_(padded_value_dim(value_dim)),
        keys_(at(sequences * heads * capacity * key_size_), static_cast<S>(0.0F)),
        values_(at(sequences * heads * capacity * value_stride_), static_cast<S>(0.0F)),
        finite_(at(sequences * heads * (capacity / tile_keys)), true) {}

  Index heads() const noexcept { return heads_; }
  Index capacity() const noexcept { return capacity_; }
  Index dim() const noexcept { return dim_; }
  Index value_dim() const noexcept { return value_dim_; }

  std::size_t bytes() const noexcept {
    return (keys_.capacity() + values_.capacity()) * sizeof(S) + finite_.capacity();
  }

  KeyTile<S> tile(Index sequence, Index head, Index tile) const noexcept {
    const Index at_tile = stored_tile(sequence, head, tile);
    return {.keys = keys_.data() + at_tile * tile_keys * key_size_,
            .values = values_.data() + at_tile * tile_keys * value_stride_,
            .value_stride = value_stride_,
            .finite = finite_[at(at_tile)] != 0};
  }

  // What writes or reads does so for one head, so that heads and tiles can be shared out to threads.

  /// k [1, n, 1, D] becomes keys first .. first + n - 1.
  template <class T>
  void write_keys(Index sequence, Index head, Index first, HeadsView<const T> k) noexcept {
    for_pieces(first, k.seq, panel_lanes, [&](Index j, Index n) {
      pack_panel<Tier>(k.row(0, j - first, 0), k.seq_stride, j % panel_lanes, n, dim_,
                       keys_.data() + panel(sequence, head, j));
    });
  }
  template <class T>
  void read_keys(Index sequence, Index head, Index first, HeadsView<T> k) const noexcept {
    for_pieces(first, k.seq, panel_lanes, [&](Index j, Index n) {
      unpack_panel<Tier>(keys_.data() + panel(sequence, head, j), j % panel_lanes, n, dim_,
                         k.row(0, j - first, 0), k.seq_stride);
    });
  }

  /// v [1, n, 1, Dv] becomes values first .. first + n - 1. Writing the first row of a tile begins
  /// it anew.
  template <class T>
  void write_values(Index sequence, Index head, Index first, HeadsView<const T> v) noexcept {
    for_pieces(first, v.seq, tile_keys, [&](Index j, Index n) {
      const bool finite = pack_values<Tier>(v.row(0, j - first, 0), v.seq_stride, n, value_dim_,
                                            value(sequence, head, j), value_stride_);
      char& note = finite_[at(stored_tile(sequence, head, j / tile_keys))];
      if (j % tile_keys == 0) {
        note = finite;
        zero_values(sequence, head, j + n, j + tile_keys);
      } else if (!finite) {
        note = false;
      }
    });
  }
  /// Begins the tile of value `first` anew: what lies before that is zero.
  void begin_values(Index sequence, Index first) noexcept {
    const Index tile = first / tile_keys;
    for (Index h = 0; h < heads_; ++h) {
      zero_values(sequence, h, tile * tile_keys, (tile + 1) * tile_keys);
      finite_[at(stored_tile(sequence, h, tile))] = true;
    }
  }
  template <class T>
  void read_values(Index sequence, Index head, Index first, HeadsView<T> v) const noexcept {
    for (Index i = 0; i < v.seq; ++i) {
      convert_row<Tier>(values_.data() + value_at(sequence, head, first + i), value_dim_,
                        v.row(0, i, 0));
    }
  }

  /// Values past `end`, of which there were some up to old_end, leave the last tile.
  void cut_values(Index sequence, Index head, Index end, Index old_end) noexcept {
    const Index tile = end / tile_keys;
    const Index last = (std::min)(old_end, (tile + 1) * tile_keys);
    if (end % tile_keys == 0 || end >= last) return;
    zero_values(sequence, head, end, last);
    if (finite_[at(stored_tile(sequence, head, tile))] == 0) note_finite(sequence, head, tile);
  }

  /// Values from .. end - 1 become values to .. where to <= from; nothing wraps around in between.
  void move_values(Index sequence, Index head, Index from, Index end, Index to) noexcept {
    const Index new_end = to + (end - from);
    std::copy(value(sequence, head, from),
              value(sequence, head, from) + (end - from) * value_stride_,
              value(sequence, head, to));
    cut_values(sequence, head, new_end, end);
    for (Index tile = to / tile_keys; tile * tile_keys < new_end; ++tile) {
      note_finite(sequence, head, tile);
    }
  }

  /// Numbers of a tile, all heads together.
  Index keys_of_tile() const noexcept { return heads_ * tile_keys * key_size_; }
  Index values_of_tile() const noexcept { return heads_ * tile_keys * value_stride_; }

  void keep_tile(Index sequence, Index tile, const KeptTile<S>& kept) const noexcept {
    const Index keys = tile_keys * key_size_, values = tile_keys * value_stride_;
    for (Index h = 0; h < heads_; ++h) {
      const Index at_tile = stored_tile(sequence, h, tile);
      std::copy_n(keys_.data() + at_tile * keys, keys, kept.keys + h * keys);
      std::copy_n(values_.data() + at_tile * values, values, kept.values + h * values);
      kept.finite[h] = finite_[at(at_tile)];
    }
  }
  void put_back_tile(Index sequence, Index tile, const KeptTile<S>& kept) noexcept {
    const Index keys = tile_keys * key_size_, values = tile_keys * value_stride_;
    for (Index h = 0; h < heads_; ++h) {
      const Index at_tile = stored_tile(sequence, h, tile);
      std::copy_n(kept.keys + h * keys, keys, keys_.data() + at_tile * keys);
      std::copy_n(kept.values + h * values, values, values_.data() + at_tile * values);
      finite_[at(at_tile)] = kept.finite[h];
    }
  }

  /// A tile of one sequence becomes another's.
  void copy_tile(Index from, Index to, Index head, Index tile) noexcept {
    const Index source = stored_tile(from, head, tile), target = stored_tile(to, head, tile);
    std::copy_n(keys_.data() + source * tile_keys * key_size_, tile_keys * key_size_,
                keys_.data() + target * tile_keys * key_size_);
    std::copy_n(values_.data() + source * tile_keys * value_stride_, tile_keys * value_stride_,
                values_.data() + target * tile_keys * value_stride_);
    finite_[at(target)] = finite_[at(source)];
  }

 private:
  static std::size_t at(Index i) noexcept { return static_cast<std::size_t>(i); }

  /// Calls visit(j, n) for the keys j .. j + n - 1 of each run of `size` that the run touches.
  template <class Visit>
  static void for_pieces(Index first, Index count, Index size, const Visit& visit) noexcept {
    for (Index j = first; j < first + count;) {
      const Index n = (std::min)(first + count, (j / size + 1) * size) - j;
      visit(j, n);
      j += n;
    }
  }

  Index stored_tile(Index sequence, Index head, Index tile) const noexcept {
    const Index tiles = capacity_ / tile_keys;
    return (sequence * heads_ + head) * tiles + tile % tiles;
  }
  /// Where the panel begins in which key j is.
  Index panel(Index sequence, Index head, Index j) const noexcept {
    const Index in_tile = j % tile_keys / panel_lanes * panel_lanes;
    return (stored_tile(sequence, head, j / tile_keys) * tile_keys + in_tile) * key_size_;
  }
  Index value_at(Index sequence, Index head, Index j) const noexcept {
    return (stored_tile(sequence, head, j / tile_keys) * tile_keys + j % tile_keys) * value_stride_;
  }
  S* value(Index sequence, Index head, Index j) noexcept {
    return values_.data() + value_at(sequence, head, j);
  }

  /// Values first .. last - 1 of one tile.
  void zero_values(Index sequence, Index head, Index first, Index last) noexcept {
    if (first == last) return;
    std::fill_n(value(sequence, head, first), (last - first) * value_stride_, static_cast<S>(0.0F));
  }
  void note_finite(Index sequence, Index head, Index tile) noexcept {
    finite_[at(stored_tile(sequence, head, tile))] =
        all_finite<Tier>(value(sequence, head, tile * tile_keys), tile_keys * value_stride_);
  }

  Index heads_, capacity_, dim_, key_size_, value_dim_, value_stride_;
  AlignedVector<S> keys_, values_;
  std::vector<char> finite_;  ///< of each tile
};

}  // namespace detail
POSENC_END
