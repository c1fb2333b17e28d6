// SPDX-License-Identifier: MIT
// Compares masks with their cells, one by one.
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/attention/detail/masks.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <vector>

namespace masks_test {

using posenc::Index;
using posenc::detail::AttentionGeometry;
using posenc::detail::AttentionShape;
using posenc::detail::Masks;
using posenc::detail::StoredKeyRanges;

namespace {

constexpr Index batch = 2, heads = 3, queries = 4, keys = 70;
constexpr AttentionShape shape{batch, heads, queries, keys};
constexpr float neg_infinity = -std::numeric_limits<float>::infinity();

/// Flags that own their memory, since vector<bool> has no array of bool; an axis of extent 1 is
/// broadcast.
struct Flags {
  std::array<Index, 4> extents;
  std::vector<unsigned char> cells;

  Flags(std::array<Index, 4> e, support::Random& random, Index one_in)
      : extents(e), cells(static_cast<std::size_t>(e[0] * e[1] * e[2] * e[3])) {
    for (auto& cell : cells) cell = random.integer(1, one_in) == 1 ? 1 : 0;
  }
  posenc::ScoresView<const bool> view() const {
    return {reinterpret_cast<const bool*>(cells.data()), extents[0], extents[1], extents[2],
            extents[3]};
  }
  bool at(Index b, Index h, Index i, Index j) const {
    const auto in = [&](std::size_t axis, Index n) { return extents[axis] == 1 ? 0 : n; };
    const Index at = ((in(0, b) * extents[1] + in(1, h)) * extents[2] + in(2, i)) * extents[3];
    return cells[static_cast<std::size_t>(at + in(3, j))] != 0;
  }
};

}  // namespace

TEST_CASE("masks: hide and add cell by cell", "[attention][masks]") {
  support::Random random(1);
  const std::vector<std::array<Index, 4>> all{
      {batch, heads, queries, keys}, {1, heads, 1, keys}, {batch, 1, queries, 1}, {1, 1, 1, keys}};
  for (const auto& extents : all) {
    for (const unsigned which : {1u, 2u, 3u, 4u, 7u}) {
      // Few enough keys are visible that contiguous ranges are masked.
      const Flags keep(extents, random, 9), masked(extents, random, 3);
      std::vector<float> added(static_cast<std::size_t>(queries * keys));
      for (float& x : added) x = random.integer(1, 2) == 1 ? neg_infinity : 0.5F;
      posenc::AttentionOptions<float> options;
      options.causal = posenc::Causal::No;
      if (which & 1u) options.keep = keep.view();
      if (which & 2u) options.masked = masked.view();
      if (which & 4u) options.additive = {added.data(), 1, 1, queries, keys};
      const AttentionGeometry<float> geometry("attention", options, shape, StoredKeyRanges(keys),
                                              {});
      const Masks<float> masks("attention", options, shape, geometry);
      REQUIRE(masks.is_active());
      const auto expected = [&](Index b, Index h, Index i, Index j, float score) {
        if ((which & 1u) && !keep.at(b, h, i, j)) return neg_infinity;
        if ((which & 2u) && masked.at(b, h, i, j)) return neg_infinity;
        return which & 4u ? score + added[static_cast<std::size_t>(i * keys + j)] : score;
      };
      bool right = true;
      for (Index b = 0; b < batch; ++b) {
        for (Index h = 0; h < heads; ++h) {
          for (Index i = 0; i < queries; ++i) {
            for (const Index first : {Index{0}, Index{31}}) {
              const Index count = first == 0 ? keys : 9;
              std::vector<float> scores(static_cast<std::size_t>(count), 2);
              masks.apply(geometry.sequence(b), h, i, first, count, scores.data());
              bool any = false;
              for (Index j = 0; j < count; ++j) {
                const float want = expected(b, h, i, first + j, 2);
                right &= scores[static_cast<std::size_t>(j)] == want;
                any |= want != neg_infinity;
              }
              right &= masks.is_any_visible(geometry.sequence(b), h, i, first, count) == any;
            }
          }
        }
      }
      INFO("masks " << which << " of " << extents[0] << " x " << extents[1] << " x " << extents[2]
                    << " x " << extents[3]);
      CHECK(right);
    }
  }
}

TEST_CASE("masks: nothing is decided without masks", "[attention][masks]") {
  posenc::AttentionOptions<float> options;
  options.causal = posenc::Causal::TopLeft;
  const AttentionGeometry<float> geometry("attention", options, shape, StoredKeyRanges(keys), {});
  CHECK(!Masks<float>("attention", options, shape, geometry).is_active());
}

}  // namespace masks_test
