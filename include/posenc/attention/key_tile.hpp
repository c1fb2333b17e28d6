// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_BEGIN
namespace detail {

/// Keys of a tile: the unit of attention's arithmetic. A tile yields maximum, sum and output of its
/// own, and tiles are merged in the order of their keys. Tiles start at multiples of this, counted
/// from key 0, whoever computes them, so that the bits of a row do not depend on who does.
inline constexpr Index tile_keys = 128;
/// Keys side by side in a tile, so that vectors run over keys and a score is one chain over d.
inline constexpr Index tile_lanes = 32;

/// Keys and values of one tile as kernels read them; S is what they are stored as. Rows of keys that
/// no query sees may hold anything.
template <class S>
struct KeyTile {
  const S* keys = nullptr;       ///< [tile_keys / tile_lanes][D][tile_lanes]
  const S* values = nullptr;     ///< [tile_keys][value_stride]
  Index value_stride = 0;        ///< value_dim rounded up to whole vectors, see padded_value_dim()
  bool finite = true;            ///< no value is NaN or infinite
  const S* next_keys = nullptr;  ///< a hint: keys that are likely to be read next
};

/// Values are padded to whole cache lines of floats, which every tier's vectors divide.
constexpr Index padded_value_dim(Index value_dim) noexcept { return (value_dim + 15) / 16 * 16; }

}  // namespace detail
POSENC_END
