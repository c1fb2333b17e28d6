// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/storage.hpp>

POSENC_BEGIN
namespace detail {

/// Keys of a tile: the unit of attention's arithmetic. A tile yields maximum, sum and output of its
/// own, and tiles are merged in the order of their keys. Tiles start at multiples of this, counted
/// from key 0, whoever computes them, so that the bits of a row do not depend on who does.
inline constexpr Index tile_keys = 128;
/// Keys side by side in a tile, so that vectors run over keys and a score is one chain over d.
inline constexpr Index tile_lanes = 32;

/// Whether keys stored as S lie with two channels of a key side by side: 2i + 1 before 2i, since a
/// processor that multiplies pairs takes the second product first. A missing last one is zero.
template <class S>
inline constexpr bool in_pairs = storage_format<S> == StorageFormat::Bfloat16;

/// Channels of a stored key.
template <class S>
constexpr Index stored_dim(Index dim) noexcept {
  return in_pairs<S> ? (dim + 1) / 2 * 2 : dim;
}

/// Keys and values of one tile as kernels read them; S is what they are stored as. Rows of keys that
/// no query sees may hold anything.
template <class S>
struct KeyTile {
  /// [tile_keys / tile_lanes][D][tile_lanes], or where in_pairs<S>, [..][ceil(D / 2)][tile_lanes][2]
  const S* keys = nullptr;
  const S* values = nullptr;     ///< [tile_keys][value_stride]
  Index value_stride = 0;        ///< value_dim rounded up to whole vectors, see padded_value_dim()
  bool finite = true;            ///< no value is NaN or infinite
  const S* next_keys = nullptr;  ///< a hint: keys that are likely to be read next
};

/// Values are padded to whole cache lines of floats, which every tier's vectors divide.
constexpr Index padded_value_dim(Index value_dim) noexcept { return (value_dim + 15) / 16 * 16; }

}  // namespace detail
POSENC_END
