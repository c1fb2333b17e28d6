// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/tier.hpp>

#include <algorithm>

// How a matrix lies that products run over: lanes side by side, their channels one after the other. What
// a lane is, a key of attention or an output of a linear layer, is its client's affair.
POSENC_BEGIN
namespace detail {

/// Lanes of a panel, so that vectors run over lanes and each product is one chain over the channels.
/// Two AVX-512 vectors of floats, or four of double: what a kernel of 12 rows has accumulators for.
inline constexpr Index panel_lanes = 32;
/// Panels of a tile, for which the lanes that count fit into a few bits.
inline constexpr Index tile_panels = 4;
inline constexpr Index tile_lanes = tile_panels * panel_lanes;

/// Whether panels of S have two channels of a lane side by side: 2i + 1 before 2i, since a processor
/// that multiplies pairs takes the second product first. A missing last one is zero.
template <class S>
inline constexpr bool in_pairs = storage_format<S> == StorageFormat::Bfloat16;

/// Channels of a lane as a panel has them.
///   Layout of a panel: [dim][panel_lanes], or where in_pairs<S>, [ceil(dim / 2)][panel_lanes][2]
template <class S>
constexpr Index stored_dim(Index dim) noexcept {
  return in_pairs<S> ? (dim + 1) / 2 * 2 : dim;
}

/// Lanes of a tile that count.
struct Lanes {
  Index begin = 0, end = 0;  ///< nothing outside of [begin, end) counts
  unsigned panels = 0;       ///< bit n: panel n has lanes that count

  bool panel(Index n) const noexcept { return (panels >> n & 1u) != 0; }
  bool empty() const noexcept { return panels == 0; }
  friend bool operator==(const Lanes&, const Lanes&) = default;
};

/// Calls work(p) for whole vectors of a row, up to the last lane that counts: kernels write no further.
template <class P, class Real, class Work>
POSENC_ALWAYS_INLINE void for_vectors(const Lanes& lanes, Real* scores, const Work& work) {
  if (lanes.panels == (1u << tile_panels) - 1 && lanes.end == tile_lanes) {
    for (Index j = 0; j < tile_lanes; j += P::width) work(scores + j);
    return;
  }
  for (Index n = 0; n < tile_panels; ++n) {
    if (!lanes.panel(n)) continue;
    const Index end = (std::min)((n + 1) * panel_lanes, lanes.end);
    for (Index j = n * panel_lanes; j < end; j += P::width) work(scores + j);
  }
}

/// Whether the vectors of every tier that the flags allow divide `count`.
constexpr bool all_vectors_divide(Index count) noexcept {
  const auto of_tier = [count]<class Tier>(Tier) {
    if constexpr (tier::allowed<Tier>) {
      return count % Pack<float, Tier>::width == 0 && count % Pack<double, Tier>::width == 0;
    } else {
      return true;
    }
  };
  return
      [&]<class... Tiers>(tier::List<Tiers...>) { return (of_tier(Tiers()) && ...); }(tier::All());
}
static_assert(all_vectors_divide(panel_lanes));

}  // namespace detail
POSENC_END
