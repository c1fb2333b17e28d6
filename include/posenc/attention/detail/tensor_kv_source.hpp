// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/attention/detail/attention_geometry.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/simd/detail/prefetch.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>

#include <type_traits>

// Source stage: provides tiles. A source has Element, the type of the numbers that it reads, and
// Stored, that of a tile; heads(); stored(), the keys in memory; Scratch, memory per thread; and
// tile(sequence, head, tile, hull of the visible keys, scratch). If has_pieces, it also has
// key_piece() and value_piece(), which provide some keys or values of a tile.
POSENC_BEGIN
namespace detail {

/// Packs the keys of a tile that lie in `seen` into their panels.
template <class Tier, class S, Scalar T>
void pack_tile_panels(const HeadsView<const T>& k, const AttentionSequence& s, Index head,
                      Index tile, const KeyRange& seen, S* panels) noexcept {
  const Index size = panel_lanes * packed_dim<S>(k.dim);
  for_aligned_chunks(seen, panel_lanes, [&](Index first, Index count) {
    pack_zeroed_panel<Tier>(k.row(s.batch, s.first_key + first, head), k.seq_stride,
                            first % panel_lanes, count, k.dim,
                            panels + (first - tile * tile_keys) / panel_lanes * size);
  });
}

/// Packs the values of a tile that lie in `seen` into padded rows. Returns true if all of them are
/// finite.
template <class Tier, class S, Scalar T>
bool pack_tile_rows(const HeadsView<const T>& v, const AttentionSequence& s, Index head, Index tile,
                    const KeyRange& seen, S* rows) noexcept {
  const Index stride = padded_value_dim(v.dim);
  return pack_values<Tier>(v.row(s.batch, s.first_key + seen.begin, head), v.seq_stride,
                           seen.end - seen.begin, v.dim,
                           rows + (seen.begin - tile * tile_keys) * stride, stride);
}

/// Source of keys and values of type S in the user's tensors, for queries of type T. Each tile is
/// packed before it is used. For few queries, pieces of it are: see forward_worker.hpp.
template <class Tier, Scalar T, Scalar S = T>
class TensorKvSource {
 public:
  using Element = S;
  /// Keys and values of another type than the queries' are packed in the type of arithmetic.
  using Stored = std::conditional_t<std::is_same_v<S, T>, PackedRowElement<Tier, T, T>, Compute<T>>;

  static constexpr bool has_pieces = true;

  struct Scratch {
    Stored* keys;
    Stored* values;
  };

  TensorKvSource(HeadsView<const S> k, HeadsView<const S> v) : k_(k), v_(v) {}

  Index heads() const noexcept { return k_.heads; }
  StoredKeyRanges stored() const noexcept { return StoredKeyRanges(k_.seq); }

  Scratch allocate(ArenaAllocator& allocator) const noexcept {
    return {allocator.allocate<Stored>(tile_keys * packed_dim<Stored>(k_.dim)),
            allocator.allocate<Stored>(tile_keys * padded_value_dim(v_.dim))};
  }

  const HeadsView<const S>& keys() const noexcept { return k_; }
  const HeadsView<const S>& values() const noexcept { return v_; }

  /// Packs the keys of a tile that lie in `seen`, and returns the tile's panels.
  const Stored* key_piece(const AttentionSequence& s, Index head, Index tile, const KeyRange& seen,
                          const Scratch& scratch) const noexcept {
    pack_tile_panels<Tier>(k_, s, head, tile, seen, scratch.keys);
    return scratch.keys;
  }

  /// Returns the values of keys `seen`, which start with that of the first key. If kernels can read
  /// the tensor's rows, these are not packed, and count as not finite.
  ///   next: first of as many values that are read next, or null
  KvTile<Stored> value_piece(const AttentionSequence& s, Index head, const KeyRange& seen,
                             const S* next, const Scratch& scratch) const noexcept {
    const S* const rows = v_.row(s.batch, s.first_key + seen.begin, head);
    if constexpr (std::is_same_v<S, Stored>) {
      if (v_.dim % value_padding == 0) {
        return {.values = rows,
                .value_stride = v_.seq_stride,
                .finite = false,
                .prefetch_hint = next,
                .is_stored = true};
      }
    }
    const Index stride = padded_value_dim(v_.dim), count = seen.end - seen.begin;
    for (Index n = 0; next != nullptr && n < count; ++n) {
      prefetch(element_at(next, n, v_.seq_stride), v_.dim * Index{sizeof(S)});
    }
    const bool finite =
        pack_values<Tier>(rows, v_.seq_stride, count, v_.dim, scratch.values, stride);
    return {.values = scratch.values,
            .value_stride = stride,
            .finite = finite,
            .prefetch_hint = scratch.values};
  }

  /// Returns a packed tile. Keys outside `seen`, which lies within the tile, are not read.
  KvTile<Stored> tile(const AttentionSequence& s, Index head, Index tile, const KeyRange& seen,
                      const Scratch& scratch) const noexcept {
    pack_tile_panels<Tier>(k_, s, head, tile, seen, scratch.keys);
    const bool finite = pack_tile_rows<Tier>(v_, s, head, tile, seen, scratch.values);
    return {.keys = scratch.keys,
            .values = scratch.values,
            .value_stride = padded_value_dim(v_.dim),
            .finite = finite,
            .prefetch_hint = scratch.keys};
  }

 private:
  HeadsView<const S> k_, v_;
};

}  // namespace detail
POSENC_END
