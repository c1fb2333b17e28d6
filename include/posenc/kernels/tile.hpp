// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/panel.hpp>

POSENC_BEGIN
namespace detail {

/// Keys from begin to end - 1, counted from the sequence's first one.
struct KeyRange {
  Index begin = 0, end = 0;

  bool empty() const noexcept { return begin >= end; }
};

/// Some rows of a block that kernels take at once.
struct Strip {
  Index first, rows;
};

/// Keys of a tile: the unit of attention's arithmetic. A tile yields maximum, sum and output of its
/// own, and tiles are merged in the order of their keys. Tiles start at multiples of this, counted
/// from key 0, whoever computes them, so that the bits of a row do not depend on who does. Another
/// number gives other bits, and other files of a cache. With 128 channels, 128 keys and their values
/// are 128 KiB of floats: they stay in a second-level cache while a block of rows passes.
inline constexpr Index tile_keys = tile_lanes;

/// Keys and values of one tile as kernels read them, in S. Rows of keys that no query sees may hold
/// anything. Who keeps them in another format, as 8 bits with a scale per block, makes numbers of them here
/// when a tile is asked for: see "Another format" in kv/README.md.
template <class S>
struct KeyTile {
  const S* keys = nullptr;       ///< [tile_panels] panels of D channels, see panel.hpp
  const S* values = nullptr;     ///< [tile_keys][value_stride]
  Index value_stride = 0;        ///< value_dim rounded up to whole vectors, see padded_value_dim()
  bool finite = true;            ///< no value is NaN or infinite
  const S* next_keys = nullptr;  ///< a hint: keys that are likely to be read next
};

/// Values are padded to whole cache lines of floats: 16, which every tier's vectors divide.
inline constexpr Index value_padding = 16;
constexpr Index padded_value_dim(Index value_dim) noexcept {
  return (value_dim + value_padding - 1) / value_padding * value_padding;
}

static_assert(all_vectors_divide(value_padding));

}  // namespace detail
POSENC_END
