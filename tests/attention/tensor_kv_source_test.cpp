// SPDX-License-Identifier: MIT
// Tests tiles of tensors: visible keys are packed, and no others are read.
#include "simd/tiers.hpp"
#include "stage_case.hpp"
#include "support/catch.hpp"
#include <posenc/attention/detail/tensor_kv_source.hpp>

#include <cstddef>
#include <limits>

namespace tensor_kv_source_test {

using attention_test::allocate_from;
using attention_test::Case;
using posenc::Index;
using posenc::detail::ArenaAllocator;
using posenc::detail::AttentionSequence;
using posenc::detail::KeyRange;
using posenc::detail::panel_lanes;
using posenc::detail::tile_keys;

TEMPLATE_LIST_TEST_CASE("TensorKvSource: tiles hold the keys and values that are seen",
                        "[attention][source]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  using Source = posenc::detail::TensorKvSource<Tier, T>;
  constexpr Index keys = 200, dim = 5, value_dim = 7, head = 1;
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  for (const KeyRange seen : {KeyRange{0, 128}, KeyRange{37, 45}, KeyRange{128, 200}}) {
    Case<T> c({1, 2, 2, 1, keys, dim, value_dim}, 1);
    // Invisible keys must not reach the tile.
    for (Index j = 0; j < keys; ++j) {
      if (j >= seen.begin && j < seen.end) continue;
      for (Index d = 0; d < dim; ++d) c.k.view().row(0, j, head)[d] = nan;
      for (Index d = 0; d < value_dim; ++d) c.v.view().row(0, j, head)[d] = nan;
    }
    const Source source(c.k.view(), c.v.view());
    posenc::detail::ScratchArenas arenas;
    const auto scratch = allocate_from(
        arenas, [&](ArenaAllocator& allocator) { return source.allocate(allocator); });
    const AttentionSequence sequence{.sequence_index = 0,
                                     .batch = 0,
                                     .first_query = 0,
                                     .queries = 1,
                                     .first_key = 0,
                                     .begin = 0,
                                     .end = keys,
                                     .stored = keys,
                                     .query_offset = 0};
    const Index tile = seen.begin / tile_keys;
    const auto packed = source.tile(sequence, head, tile, seen, scratch);
    CHECK(packed.finite);
    bool right = true;
    for (Index j = seen.begin / panel_lanes * panel_lanes; j < seen.end; ++j) {
      const bool is_seen = j >= seen.begin;
      const Index lane = j - tile * tile_keys;
      const T* panel = packed.keys + lane / panel_lanes * panel_lanes * dim;
      for (Index d = 0; d < dim; ++d) {
        const T want = is_seen ? c.k.view().row(0, j, head)[d] : T{0};
        right &= tiers::same(panel[d * panel_lanes + lane % panel_lanes], want);
      }
      for (Index d = 0; is_seen && d < packed.value_stride; ++d) {
        const T want = d < value_dim ? c.v.view().row(0, j, head)[d] : T{0};
        right &= tiers::same(packed.values[lane * packed.value_stride + d], want);
      }
    }
    INFO(Tier::name << ", keys " << seen.begin << " to " << seen.end);
    CHECK(right);
    // A value that is not finite is detected.
    c.v.view().row(0, seen.begin, head)[value_dim - 1] = nan;
    CHECK(!source.tile(sequence, head, tile, seen, scratch).finite);
  }
}

}  // namespace tensor_kv_source_test
