// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/panel.hpp>

#include <algorithm>

POSENC_BEGIN
namespace detail {

/// Range of keys [begin, end), counted from the sequence's first key.
struct KeyRange {
  Index begin = 0, end = 0;

  bool empty() const noexcept { return begin >= end; }
};

/// Calls visit(first, count) for the part of a range in each aligned chunk of `size` keys.
template <class Visit>
void for_aligned_chunks(const KeyRange& keys, Index size, const Visit& visit) {
  for (Index j = keys.begin; j < keys.end;) {
    const Index count = (std::min)(keys.end, (j / size + 1) * size) - j;
    visit(j, count);
    j += count;
  }
}

/// Rows of a block that one call processes: at most register_tile_rows for products with packed
/// tiles, any number in for_uniform_rows() and with unpacked tiles.
struct Strip {
  Index first, rows;
};

/// Number of keys of a tile, the unit of attention's arithmetic. Each tile yields a row maximum, a
/// row sum and an output; tiles are merged in key order.
/// Tiles start at multiples of tile_keys, counted from key 0, whichever call or thread computes
/// them. So the bits of a row do not depend on the division of work. Another value changes these
/// bits and the files of a cache.
/// With 128 channels, 128 keys and their values are 128 KiB of floats: they stay in L2 while the
/// rows of a block pass over them.
inline constexpr Index tile_keys = tile_lanes;

/// Keys and values of one tile, packed for kernels as elements of type S. Rows of keys that are
/// masked for all queries are uninitialised.
/// A source that stores keys in another format, such as 8 bits with a scale, converts a tile to S
/// when the tile is requested.
template <class S>
struct KvTile {
  const S* keys = nullptr;           ///< [tile_panels] panels of D channels, see panel.hpp
  const S* values = nullptr;         ///< [tile_keys][value_stride]
  Index value_stride = 0;            ///< padded_value_dim() of value_dim
  bool finite = true;                ///< no value is NaN or infinite
  const S* prefetch_hint = nullptr;  ///< prefetch hint: keys that are likely to be read next
  bool is_stored = false;            ///< not packed by this call, so it may be in memory alone
};

/// Values are padded to a multiple of 16: a cache line of floats, and a multiple of every tier's
/// vector width.
inline constexpr Index value_padding = 16;
constexpr Index padded_value_dim(Index value_dim) noexcept {
  return (value_dim + value_padding - 1) / value_padding * value_padding;
}

static_assert(all_vectors_divide(value_padding));

}  // namespace detail
POSENC_END
