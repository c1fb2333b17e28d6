// SPDX-License-Identifier: MIT
// Compares visible ranges of keys with the causal rules and windows, key by key.
#include "support/catch.hpp"
#include "support/compare.hpp"
#include <posenc/attention/detail/attention_geometry.hpp>

#include <algorithm>
#include <vector>

namespace attention_geometry_test {

using posenc::Causal;
using posenc::Index;
using posenc::detail::AttentionGeometry;
using posenc::detail::AttentionSequence;
using posenc::detail::AttentionShape;
using posenc::detail::KeyRange;
using posenc::detail::StoredKeyRanges;

namespace {

using Options = posenc::AttentionOptions<float>;

/// True if the rule makes key j visible to a query with a known aligned key; both count from the
/// sequence's first.
bool shows(const Options& options, const AttentionSequence& s, Index place, Index j) {
  const auto& window = options.window;
  return j >= s.begin && j < s.end && (options.causal == Causal::No || j <= place) &&
         (window.left < 0 || j >= place - window.left) &&
         (window.right < 0 || j <= place + window.right);
}

/// True if every range holds exactly the keys that the rule makes visible.
bool ranges_are_right(const Options& options, const AttentionGeometry<float>& geometry) {
  for (Index n = 0; n < geometry.sequences(); ++n) {
    const AttentionSequence s = geometry.sequence(n);
    for (Index i = 0; i < s.queries; ++i) {
      const KeyRange range = geometry.visible_range(s, i);
      for (Index j = s.begin; j < s.stored; ++j) {
        const bool inside = j >= range.begin && j < range.end;
        if (inside != shows(options, s, s.query_offset + i, j)) return false;
      }
    }
  }
  return true;
}

}  // namespace

TEST_CASE("AttentionGeometry: ranges of keys are what causal rules and windows show",
          "[attention][places]") {
  const std::vector<Index> lengths{9, 4}, starts{3, -2};
  for (const Causal causal :
       {Causal::No, Causal::TopLeft, Causal::BottomRight, Causal::FromStart}) {
    for (const Index left : {-1, 0, 2}) {
      for (const Index right : {-1, 0, 3}) {
        for (const bool with_lengths : {false, true}) {
          Options options;
          options.causal = causal;
          options.window = {left, right};
          if (with_lengths) options.key_lengths = lengths;
          if (causal == Causal::FromStart || causal == Causal::No) options.query_starts = starts;
          const AttentionShape shape{2, 1, 5, 11};
          const AttentionGeometry<float> geometry("attention", options, shape, StoredKeyRanges(11),
                                                  {});
          CHECK(geometry.sequences() == 2);
          CHECK(ranges_are_right(options, geometry));
          CHECK(geometry.sequence(1).end == (with_lengths ? 4 : 11));
          CHECK(geometry.sequence(1).stored == 11);
        }
      }
    }
  }
}

TEST_CASE("AttentionGeometry: packed sequences have places of their own", "[attention][places]") {
  const std::vector<Index> of_q{0, 2, 2, 7}, of_k{0, 3, 4, 13};
  Options options;
  options.causal = Causal::BottomRight;
  options.window = {4, -1};
  options.cu_seqlens_q = of_q;
  options.cu_seqlens_k = of_k;
  const AttentionGeometry<float> geometry("attention", options, {1, 2, 7, 13}, StoredKeyRanges(13),
                                          {});
  REQUIRE(geometry.sequences() == 3);
  CHECK(geometry.max_queries() == 5);
  CHECK(ranges_are_right(options, geometry));
  const AttentionSequence last = geometry.sequence(2);
  CHECK(last.first_query == 2);
  CHECK(last.first_key == 4);
  CHECK(last.query_offset == 4);
  // Positions continue through the row.
  CHECK(geometry.query_position(last, 0) == 8);
  CHECK(geometry.key_position(last, 1) == 5);
}

TEST_CASE("AttentionGeometry: a ring's first keys are counted where they were",
          "[attention][places]") {
  const std::vector<KeyRange> of_sequences{{0, 20}, {128, 300}};
  const std::vector<Index> sequences{1};
  Options options;
  options.causal = Causal::BottomRight;
  options.window = posenc::sliding_window(100);
  const AttentionGeometry<float> geometry("attention", options, {1, 1, 2, 300},
                                          StoredKeyRanges(of_sequences.data(), sequences), {});
  const AttentionSequence s = geometry.sequence(0);
  CHECK(s.begin == 128);
  CHECK(s.end == 300);
  CHECK(ranges_are_right(options, geometry));
  options.window = {};
  CHECK_THROWS_AS(AttentionGeometry<float>("attention", options, {1, 1, 2, 300},
                                           StoredKeyRanges(of_sequences.data(), sequences), {}),
                  posenc::ConfigError);
}

TEST_CASE(
    "AttentionGeometry: by position, ascending keys have a range and others are asked one by one",
    "[attention][places]") {
  const auto queries = posenc::Positions::real({0.5, 4, -1});
  for (const bool ascending : {true, false}) {
    std::vector<double> positions{-3, -1, 0, 0.5, 2, 2, 9};
    if (!ascending) std::reverse(positions.begin(), positions.end());
    const auto keys = posenc::Positions::real(positions);
    Options options;
    options.causal = Causal::ByPosition;
    options.window = {2, -1};
    const AttentionGeometry<float> geometry("attention", options, {1, 1, 3, 7}, StoredKeyRanges(7),
                                            {&queries, &keys});
    CHECK(geometry.needs_per_key_test() == !ascending);
    const AttentionSequence s = geometry.sequence(0);
    for (Index i = 0; i < 3; ++i) {
      const KeyRange range = geometry.visible_range(s, i);
      for (Index j = 0; j < 7; ++j) {
        const double key = positions[static_cast<std::size_t>(j)], query = queries.at(0, i);
        const bool shown = key <= query && key >= query - 2;
        CHECK(geometry.is_visible_by_position(s, i, j) == shown);
        const bool inside = j >= range.begin && j < range.end;
        CHECK((ascending ? inside == shown : inside));
      }
    }
  }
}

TEST_CASE("AttentionGeometry: a tile's keys have the positions that they have one by one",
          "[attention][places]") {
  const std::vector<double> listed{-3, 7, 0.5, 2, 1, 4, 8, 0, 9, 6, 5, 3};
  const std::vector<Index> of_k{0, 2, 6};
  Options batch, packed;
  packed.cu_seqlens_q = packed.cu_seqlens_k = of_k;
  const auto range = posenc::Positions::range(-4, 6),
             one_row = posenc::Positions::real({3, -1, 0.5, 2, 9, 4});
  const auto starts = posenc::Positions::starts({100, -7}, 6);
  const auto table = posenc::Positions::real(2, listed);
  const auto check = [&](const Options& options, Index rows, const posenc::Positions* keys) {
    const AttentionGeometry<float> geometry("attention", options, {rows, 1, 6, 6},
                                            StoredKeyRanges(6), {nullptr, keys});
    for (Index n = 0; n < geometry.sequences(); ++n) {
      const AttentionSequence s = geometry.sequence(n);
      double memory[6];
      const double* const positions = geometry.key_positions(s, 1, s.end - 1, memory);
      for (Index j = 1; j < s.end; ++j) CHECK(positions[j - 1] == geometry.key_position(s, j));
    }
  };
  for (const auto* keys : {static_cast<const posenc::Positions*>(nullptr), &range, &one_row}) {
    check(batch, 2, keys);
    check(packed, 1, keys);
  }
  check(batch, 2, &starts);
  check(batch, 2, &table);
}

}  // namespace attention_geometry_test
