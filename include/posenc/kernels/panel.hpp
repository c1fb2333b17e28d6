// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/detail/storage.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/simd/tier.hpp>

#include <algorithm>

// Memory layout of a matrix that products run over: lanes are contiguous, and channels follow each
// other. A lane is a key of attention or an output of a linear layer; this file does not depend on
// which.
POSENC_BEGIN
namespace detail {

/// Number of lanes of a panel. Vectors run over lanes, so each product is one dependency chain over
/// the channels.
/// 32 lanes are two AVX-512 vectors of floats, or four of doubles: a kernel of 12 rows has
/// accumulators for them.
inline constexpr Index panel_lanes = 32;
/// Number of panels of a tile. They are few, so that a bit mask describes the active ones.
inline constexpr Index tile_panels = 4;
inline constexpr Index tile_lanes = tile_panels * panel_lanes;

/// True if panels of S interleave two channels of a lane, 2i + 1 before 2i: a processor that
/// multiplies pairs adds the second product of a pair first. A missing last channel is stored as
/// zero.
template <class S>
inline constexpr bool has_paired_channels = storage_format<S> == StorageFormat::Bfloat16;

/// Returns the number of channels that a panel stores for each lane.
///   Layout: a panel is [dim][panel_lanes], or if has_paired_channels<S>, [ceil(dim /
///           2)][panel_lanes][2]
template <class S>
constexpr Index packed_dim(Index dim) noexcept {
  return has_paired_channels<S> ? (dim + 1) / 2 * 2 : dim;
}

/// Active lanes of a tile. Kernels compute these and skip all others.
struct ActiveLanes {
  Index begin = 0, end = 0;  ///< active lanes lie in [begin, end)
  unsigned panel_mask = 0;   ///< bit n: panel n has active lanes

  bool has_panel(Index n) const noexcept { return (panel_mask >> n & 1u) != 0; }
  bool empty() const noexcept { return panel_mask == 0; }
  friend bool operator==(const ActiveLanes&, const ActiveLanes&) = default;
};

/// Calls work(p) for each vector of a row up to the last active lane, in active panels.
template <class P, class Real, class Work>
POSENC_ALWAYS_INLINE void for_active_vectors(const ActiveLanes& lanes, Real* scores,
                                             const Work& work) {
  // If all panels are active, one long loop is faster than four short ones.
  const Index size = lanes.panel_mask == (1u << tile_panels) - 1 ? tile_lanes : panel_lanes;
  for (Index begin = 0; begin < lanes.end; begin += size) {
    if (!lanes.has_panel(begin / panel_lanes)) continue;
    const Index end = (std::min)(begin + size, lanes.end);
    for (Index j = begin; j < end; j += P::width) work(scores + j);
  }
}

/// True if `count` is a multiple of the vector width in every tier that the flags allow.
constexpr bool all_vectors_divide(Index count) noexcept {
  const auto divides_in = [count]<class Tier>(Tier) {
    if constexpr (tier::allowed<Tier>) {
      return count % Pack<float, Tier>::width == 0 && count % Pack<double, Tier>::width == 0;
    } else {
      return true;
    }
  };
  return [&]<class... Tiers>(tier::List<Tiers...>) {
    return (divides_in(Tiers()) && ...);
  }(tier::All());
}
static_assert(all_vectors_divide(panel_lanes));

}  // namespace detail
POSENC_END
