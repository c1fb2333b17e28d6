// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/convert_row.hpp>
#include <posenc/kernels/pack_panel.hpp>
#include <posenc/kernels/panel.hpp>
#include <posenc/kernels/scratch_arenas.hpp>
#include <posenc/kernels/tile.hpp>
#include <posenc/kv/kv_format.hpp>
#include <posenc/tensor/scalar.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>

// All that depends on the format of a cache. KvLayout<Tier, S> has the types Element of memory,
// Real of arithmetic and Stored of the tiles that attention reads; the size of a row; functions
// that write and read some rows of a tile; and tile(). Rows `first` .. first + count - 1 of keys
// lie in one panel. A tile has tile_keys rows of keys and of values.
POSENC_BEGIN
namespace detail {

/// Pointers to the keys and values of a tile, of one head or, in a saved tile, of all heads.
/// `has_nonfinite` is nonzero if a value is NaN or infinite, so that zeroed memory is a valid tile.
template <class E>
struct TilePointers {
  E* keys = nullptr;
  E* values = nullptr;
  std::conditional_t<std::is_const_v<E>, const char, char>* has_nonfinite = nullptr;
};

template <class Tier, KvFormat S>
struct KvLayout;

/// Layout of an element type: panels of keys and padded rows of values, as kernels read them.
template <class Tier, Scalar S>
struct KvLayout<Tier, S> {
  using Element = S;
  using Real = Compute<S>;
  using Stored = S;
  struct Scratch {};

  Index dim, value_dim;
  Index key_size = packed_dim<S>(dim);             ///< elements per key
  Index value_size = padded_value_dim(value_dim);  ///< elements per value

  /// True if rows of T can be written and read.
  template <class T>
  static constexpr bool converts = std::same_as<Compute<T>, Real>;

  static Element zero() noexcept { return static_cast<S>(0.0F); }

  template <class T>
  void write_keys(const T* rows, Index stride, Index first, Index count, S* keys) const noexcept {
    pack_panel<Tier>(rows, stride, first % panel_lanes, count, dim, panel(keys, first));
  }
  template <class T>
  void read_keys(const S* keys, Index first, Index count, T* rows, Index stride) const noexcept {
    unpack_panel<Tier>(panel(keys, first), first % panel_lanes, count, dim, rows, stride);
  }
  /// Returns true if all values are finite after rounding.
  template <class T>
  bool write_values(const T* rows, Index stride, Index first, Index count,
                    S* values) const noexcept {
    return pack_values<Tier>(rows, stride, count, value_dim, values + first * value_size,
                             value_size);
  }
  template <class T>
  void read_values(const S* values, Index first, Index count, T* rows,
                   Index stride) const noexcept {
    for (Index i = 0; i < count; ++i) {
      convert_row<Tier>(values + (first + i) * value_size, value_dim, rows + i * stride);
    }
  }
  bool values_are_finite(const S* values, Index count) const noexcept {
    return all_finite<Tier>(values, count * value_size);
  }

  static Scratch allocate(ArenaAllocator&) noexcept { return {}; }
  /// Returns a tile as attention reads it.
  ///   next:    the tile that is likely to be read next
  ///   visible: keys that are read, counted from the tile's first key
  KvTile<S> tile(const TilePointers<const S>& stored, const TilePointers<const S>& next,
                 const KeyRange& /*visible*/, const Scratch&) const noexcept {
    return {.keys = stored.keys,
            .values = stored.values,
            .value_stride = value_size,
            .finite = *stored.has_nonfinite == 0,
            .prefetch_hint = next.keys,
            .is_stored = true};
  }

 private:
  /// Returns the start of the panel that contains key `first` of a tile.
  template <class E>
  E* panel(E* keys, Index first) const noexcept {
    return keys + first / panel_lanes * panel_lanes * key_size;
  }
};

/// Layout of a KvRowFormat: rows of bytes, which tile() decodes and packs in scratch memory.
template <class Tier, KvRowFormat F>
requires(!Scalar<F>) struct KvLayout<Tier, F> {
  using Element = std::byte;
  using Real = float;
  using Stored = float;
  struct Scratch {
    float *rows, *keys, *values;
  };

  Index dim, value_dim;
  Index key_size = static_cast<Index>(F::row_bytes(dim));          ///< bytes per key
  Index value_size = static_cast<Index>(F::row_bytes(value_dim));  ///< bytes per value

  template <class T>
  static constexpr bool converts = std::same_as<T, float>;

  static Element zero() noexcept { return {}; }

  void write_keys(const float* rows, Index stride, Index first, Index count,
                  std::byte* keys) const noexcept {
    encode(rows, stride, count, dim, keys + first * key_size, key_size);
  }
  void read_keys(const std::byte* keys, Index first, Index count, float* rows,
                 Index stride) const noexcept {
    decode(keys + first * key_size, key_size, count, dim, rows, stride);
  }
  /// Returns true: tile() checks the decoded values.
  bool write_values(const float* rows, Index stride, Index first, Index count,
                    std::byte* values) const noexcept {
    encode(rows, stride, count, value_dim, values + first * value_size, value_size);
    return true;
  }
  void read_values(const std::byte* values, Index first, Index count, float* rows,
                   Index stride) const noexcept {
    decode(values + first * value_size, value_size, count, value_dim, rows, stride);
  }
  static bool values_are_finite(const std::byte*, Index) noexcept { return true; }

  Scratch allocate(ArenaAllocator& allocator) const noexcept {
    return {allocator.allocate<float>(panel_lanes * dim),
            allocator.allocate<float>(tile_keys * dim),
            allocator.allocate<float>(tile_keys * padded_value_dim(value_dim))};
  }
  KvTile<float> tile(const TilePointers<const std::byte>& stored,
                     const TilePointers<const std::byte>& /*next*/, const KeyRange& visible,
                     const Scratch& scratch) const noexcept {
    for_aligned_chunks(visible, panel_lanes, [&](Index first, Index count) {
      read_keys(stored.keys, first, count, scratch.rows, dim);
      pack_zeroed_panel<Tier>(scratch.rows, dim, first % panel_lanes, count, dim,
                              scratch.keys + first / panel_lanes * panel_lanes * dim);
    });
    const Index stride = padded_value_dim(value_dim), count = visible.end - visible.begin;
    float* const values = scratch.values + visible.begin * stride;
    read_values(stored.values, visible.begin, count, values, stride);
    for (Index i = 0; i < count; ++i) {
      std::fill_n(values + i * stride + value_dim, stride - value_dim, 0.0F);
    }
    return {.keys = scratch.keys,
            .values = scratch.values,
            .value_stride = stride,
            .finite = all_finite<Tier>(values, count * stride),
            .prefetch_hint = scratch.keys};
  }

 private:
  static std::size_t at(Index n) noexcept { return static_cast<std::size_t>(n); }

  static void encode(const float* rows, Index stride, Index count, Index channels, std::byte* to,
                     Index bytes) noexcept {
    for (Index i = 0; i < count; ++i) {
      F::encode(std::span<const float>(rows + i * stride, at(channels)),
                std::span<std::byte>(to + i * bytes, at(bytes)));
    }
  }
  static void decode(const std::byte* from, Index bytes, Index count, Index channels, float* rows,
                     Index stride) noexcept {
    for (Index i = 0; i < count; ++i) {
      F::decode(std::span<const std::byte>(from + i * bytes, at(bytes)),
                std::span<float>(rows + i * stride, at(channels)));
    }
  }
};

}  // namespace detail
POSENC_END
