// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/kernels/products.hpp>
#include <posenc/kernels/softmax.hpp>
#include <posenc/simd/tier.hpp>

POSENC_BEGIN
namespace detail {

/// Rows of a block: as many as make packing a tile, one pass over it, cheap beside as many products with it, and
/// few enough that their queries and outputs stay in a second-level cache beside the tile: with 128 channels of
/// float, 1 KiB a row. Whole strips of every tier.
///   rows_of_block: where a bias wants the scores of all rows in that cache as well, or blocks are few
inline constexpr Index rows_of_block = 288, rows_of_long_block = 576;
/// Rows of a block whose tiles are shared out: four strips of the widest tier.
inline constexpr Index rows_of_split = 48;
/// Rows of a KV head that read keys and values unpacked, at most: for more, packing a tile is worth its time.
inline constexpr Index max_unpacked_rows = 16;
/// Rows of all tiles that are kept at once: with 128 channels, 2 MiB of floats.
inline constexpr Index rows_of_parts = 4096;

template <class... Tiers>
constexpr bool all_strips_fit(tier::List<Tiers...>) noexcept {
  return ((rows_of_block % kernel_rows<Tiers> == 0 &&
           rows_of_long_block % kernel_rows<Tiers> == 0 &&
           rows_of_split % kernel_rows<Tiers> == 0 && kernel_rows<Tiers> <= rows_at_once) &&
          ...);
}
static_assert(all_strips_fit(tier::All()));

}  // namespace detail
POSENC_END
