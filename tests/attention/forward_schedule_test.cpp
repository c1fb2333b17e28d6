// SPDX-License-Identifier: MIT
// Tests which block requests which tile, on how many threads, by a source that records requests.
#include "attention_case.hpp"
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include "support/cutter.hpp"
#include <posenc/attention/detail/attend.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <vector>

namespace forward_schedule_test {

using attention_test::Case;
using attention_test::Mask;
using posenc::Causal;
using posenc::Index;
using posenc::detail::AttentionSequence;
using posenc::detail::KeyRange;
using posenc::detail::tile_keys;

namespace {

/// Request for keys [begin, end) of a tile, counted from the sequence's first key.
struct Asked {
  Index batch, head, tile, begin, end;

  auto operator<=>(const Asked&) const = default;
};

/// Source that provides the tiles of tensors, on one thread at a time.
template <class Tier>
class RecordingKeys {
  using Tensors = posenc::detail::TensorKvSource<Tier, float>;

 public:
  using Element = typename Tensors::Element;
  using Stored = typename Tensors::Stored;
  using Scratch = typename Tensors::Scratch;

  RecordingKeys(Case<float>& c, std::vector<Asked>& asked)
      : tensors_(c.k.view(), c.v.view()), asked_(asked) {}

  Index heads() const noexcept { return tensors_.heads(); }
  posenc::detail::StoredKeyRanges stored() const noexcept { return tensors_.stored(); }
  Scratch allocate(posenc::detail::ArenaAllocator& allocator) const noexcept {
    return tensors_.allocate(allocator);
  }
  auto tile(const AttentionSequence& s, Index head, Index tile, const KeyRange& seen,
            const Scratch& scratch) const {
    asked_.push_back({s.batch, head, tile, seen.begin, seen.end});
    return tensors_.tile(s, head, tile, seen, scratch);
  }

 private:
  Tensors tensors_;
  std::vector<Asked>& asked_;
};

/// Returns the requests of a call on a device, in order.
template <class Tier, class Device>
std::vector<Asked> asked_by(const Device& device, Case<float>& c,
                            const posenc::AttentionOptions<float>& options) {
  std::vector<Asked> asked;
  const posenc::HeadsView<const float> q = c.q.view();
  posenc::detail::attend<Tier, float>(posenc::detail::ErasedDevice(device), q,
                                      RecordingKeys<Tier>(c, asked), c.shape.keys,
                                      c.shape.value_dim, c.out.view(), options,
                                      posenc::detail::ErasedBias<float>(posenc::NoBias()), {}, {});
  return asked;
}

posenc::AttentionOptions<float> windowed(Index left) {
  posenc::AttentionOptions<float> options;
  options.causal = Causal::BottomRight;
  options.window.left = left;
  return options;
}

/// Returns the expected requests: blocks of `per_block` queries head by head, and for each the
/// tiles that its queries see.
std::vector<Asked> expected(const Case<float>& c, Index left, Index per_block) {
  const auto& s = c.shape;
  std::vector<Asked> all;
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.kv_heads; ++h) {
      for (Index first = 0; first < s.queries; first += per_block) {
        const Index last = std::min(first + per_block, s.queries) - 1, place = s.keys - s.queries;
        const Index begin = std::max(Index{0}, place + first - left), end = place + last + 1;
        for (Index tile = begin / tile_keys; tile * tile_keys < end; ++tile) {
          all.push_back({b, h, tile, std::max(begin, tile * tile_keys),
                         std::min(end, (tile + 1) * tile_keys)});
        }
      }
    }
  }
  return all;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE(
    "ForwardSchedule: a block asks once for each tile that its queries see, and for no other",
    "[attention][schedule]", tiers::All) {
  using Tier = TestType;
  // Blocks have at most 576 rows of two heads, are balanced, and have full strips.
  Case<float> c({2, 4, 2, 500, 700, 8, 8}, 1);
  for (const Index left : {99, 300, 1000}) {
    INFO("window of " << left);
    CHECK(asked_by<Tier>(posenc::detail::CallingThread(), c, windowed(left)) ==
          expected(c, left, 252));
  }
}

TEMPLATE_LIST_TEST_CASE("ForwardSchedule: blocks are shorter where they are few for the threads",
                        "[attention][schedule]", tiers::All) {
  using Tier = TestType;
  // Two blocks of up to 576 rows: blocks of up to 288 rows are balanced better.
  Case<float> few({1, 4, 2, 200, 500, 8, 8}, 2);
  CHECK(asked_by<Tier>(posenc::detail::CallingThread(), few, windowed(140)) ==
        expected(few, 140, 102));
  // Two blocks of up to 288 rows for five threads: blocks of 48 rows suffice for all.
  Case<float> fewer({1, 2, 2, 216, 500, 8, 8}, 2);
  CHECK(asked_by<Tier>(support::Cutter{1}, fewer, windowed(140)) == expected(fewer, 140, 48));
}

TEMPLATE_LIST_TEST_CASE(
    "ForwardSchedule: tiles of a block are shared where there are fewer blocks than threads",
    "[attention][schedule]", tiers::All) {
  using Tier = TestType;
  Case<float> c({1, 3, 1, 2, 1000, 8, 8}, 3);
  const auto alone = asked_by<Tier>(posenc::detail::CallingThread(), c, windowed(2000));
  auto out = c.out;
  for (const Index part : {1, 3}) {
    c.out.for_each([](float& x) { x = 7; });
    auto asked = asked_by<Tier>(support::Cutter{part}, c, windowed(2000));
    // The last chunk runs first.
    CHECK(asked.front().tile != 0);
    std::sort(asked.begin(), asked.end());
    CHECK(asked == alone);
    CHECK(support::same_bits(c.out.view(), out.view()));
  }
}

TEMPLATE_LIST_TEST_CASE("ForwardSchedule: hidden tiles are never asked for",
                        "[attention][schedule]", tiers::All) {
  using Tier = TestType;
  Case<float> c({1, 2, 1, 30, 600, 8, 8}, 4);
  Mask<bool> keep(1, 1, c.shape.queries, c.shape.keys);
  for (Index i = 0; i < c.shape.queries; ++i) {
    for (Index j = 0; j < c.shape.keys; ++j) {
      keep.values(0, 0, i, j) = j / tile_keys != 1 && j / tile_keys != 3;
    }
  }
  posenc::AttentionOptions<float> options;
  options.keep = keep.view();
  options.causal = Causal::No;
  std::vector<Index> tiles;
  for (const Asked& asked : asked_by<Tier>(posenc::detail::CallingThread(), c, options)) {
    tiles.push_back(asked.tile);
  }
  CHECK(tiles == std::vector<Index>{0, 2, 4});
}

}  // namespace forward_schedule_test
