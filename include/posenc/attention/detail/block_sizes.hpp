// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/simd/tier.hpp>

POSENC_BEGIN
namespace detail {

/// Maximum rows of a block. They are many enough that packing a tile costs little beside the
/// products with it. They are few enough that their queries and outputs, 1 KiB per row with 128
/// channels of float, stay in L2 beside the tile. Each is a multiple of the strip size of every
/// tier.
///   max_block_rows: used if a bias keeps the scores of all rows in L2 as well, or if blocks are
///       few
inline constexpr Index max_block_rows = 288, max_long_block_rows = 576;
/// Maximum rows of a block whose tiles are distributed over threads: four strips of the widest
/// tier.
inline constexpr Index max_split_k_rows = 48;
/// Maximum rows of a KV head that read pieces of tiles. With more rows packing a tile is faster.
inline constexpr Index max_piece_rows = 16;
/// Maximum rows of all tiles whose states are kept until they are merged: with 128 channels, 2 MiB
/// of floats.
inline constexpr Index max_split_k_state_rows = 4096;

template <class... Tiers>
constexpr bool all_strips_fit(tier::List<Tiers...>) noexcept {
  return ((max_block_rows % register_tile_rows<Tiers> == 0 &&
           max_long_block_rows % register_tile_rows<Tiers> == 0 &&
           max_split_k_rows % register_tile_rows<Tiers> == 0 &&
           register_tile_rows<Tiers> <= stats_rows) &&
          ...);
}
static_assert(all_strips_fit(tier::All()));

}  // namespace detail
POSENC_END
