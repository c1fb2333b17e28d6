// SPDX-License-Identifier: MIT
// Tests views of plain memory: extents, strides, slices.
#include "support/catch.hpp"
#include <posenc/tensor/view.hpp>

#include <array>
#include <limits>
#include <numeric>
#include <type_traits>
#include <vector>

namespace view_test {

using Catch::Matchers::Message;
using posenc::EmbeddingsView;
using posenc::HeadsView;
using posenc::Index;
using posenc::MatrixView;
using posenc::ScoresView;
using posenc::ShapeError;

namespace {

/// Returns 0, 1, 2, ...: the value of an element is its index in memory.
std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

/// Returns a view [2, 3, 4, 5] laid out as [batch, heads, seq, dim].
HeadsView<float> heads_of(std::vector<float>& memory) {
  return {.data = memory.data(),
          .batch = 2,
          .seq = 3,
          .heads = 4,
          .dim = 5,
          .batch_stride = 60,
          .seq_stride = 5,
          .head_stride = 15};
}

}  // namespace

TEST_CASE("HeadsView: raw pointers are filled by name", "[view]") {
  auto memory = counted(120);
  const HeadsView<float> heads = heads_of(memory);
  CHECK(heads.row(0, 0, 0) == memory.data());
  CHECK(*heads.row(1, 2, 3) == 60 + 10 + 45);
  CHECK(heads.extents() == std::array<Index, 4>{2, 3, 4, 5});

  const EmbeddingsView<float> tokens{.data = memory.data() + 2,
                                     .batch = 2,
                                     .seq = 5,
                                     .dim = 4,
                                     .batch_stride = 60,
                                     .seq_stride = 12};
  CHECK(*tokens.row(1, 3) == 2 + 60 + 36);
  CHECK(tokens.extents() == std::array<Index, 3>{2, 5, 4});

  const MatrixView<float> table{.data = memory.data(), .rows = 10, .cols = 8, .row_stride = 12};
  CHECK(*table.row(9) == 108);
  CHECK(table.extents() == std::array<Index, 2>{10, 8});

  const ScoresView<float> scores{.data = memory.data(),
                                 .batch = 1,
                                 .heads = 2,
                                 .queries = 3,
                                 .keys = 4,
                                 .head_stride = 24,
                                 .query_stride = 8,
                                 .key_stride = 2};
  CHECK(scores(0, 1, 2, 3) == 24 + 16 + 6);
  CHECK(scores.extents() == std::array<Index, 4>{1, 2, 3, 4});
}

TEST_CASE("HeadsView: strides may be negative or zero", "[view]") {
  auto memory = counted(12);
  const EmbeddingsView<float> reversed{.data = memory.data() + 8,
                                       .batch = 2,
                                       .seq = 3,
                                       .dim = 4,
                                       .batch_stride = 0,
                                       .seq_stride = -4};
  CHECK(*reversed.row(0, 0) == 8);
  CHECK(*reversed.row(1, 2) == 0);
}

TEST_CASE("HeadsView: mutable elements become const ones, never back", "[view]") {
  STATIC_REQUIRE(std::is_convertible_v<HeadsView<float>, HeadsView<const float>>);
  STATIC_REQUIRE(std::is_convertible_v<EmbeddingsView<float>, EmbeddingsView<const float>>);
  STATIC_REQUIRE(std::is_convertible_v<MatrixView<float>, MatrixView<const float>>);
  STATIC_REQUIRE(std::is_convertible_v<ScoresView<float>, ScoresView<const float>>);
  STATIC_REQUIRE(!std::is_convertible_v<HeadsView<const float>, HeadsView<float>>);
  STATIC_REQUIRE(!std::is_convertible_v<EmbeddingsView<const float>, EmbeddingsView<float>>);
  STATIC_REQUIRE(!std::is_convertible_v<MatrixView<const float>, MatrixView<float>>);
  STATIC_REQUIRE(!std::is_convertible_v<ScoresView<const float>, ScoresView<float>>);

  auto memory = counted(120);
  const HeadsView<float> heads = heads_of(memory);
  const HeadsView<const float> seen = heads;
  CHECK(seen.row(1, 2, 3) == heads.row(1, 2, 3));
  CHECK(seen.extents() == heads.extents());
  const ScoresView<float> scores{.data = memory.data(), .keys = 4, .key_stride = 3};
  CHECK(ScoresView<const float>(scores).key_stride == 3);
}

TEST_CASE("HeadsView: empty where any extent is 0", "[view]") {
  CHECK(HeadsView<float>{}.empty());
  CHECK(EmbeddingsView<float>{}.empty());
  CHECK(MatrixView<float>{}.empty());
  auto memory = counted(120);
  HeadsView<float> heads = heads_of(memory);
  CHECK_FALSE(heads.empty());
  heads.seq = 0;
  CHECK(heads.empty());
  for (const auto extent :
       {&EmbeddingsView<float>::batch, &EmbeddingsView<float>::seq, &EmbeddingsView<float>::dim}) {
    EmbeddingsView<float> embeddings{memory.data(), 2, 3, 4};
    CHECK_FALSE(embeddings.empty());
    embeddings.*extent = 0;
    CHECK(embeddings.empty());
  }
  CHECK_FALSE(MatrixView<float>{memory.data(), 2, 3}.empty());
  CHECK(MatrixView<float>{memory.data(), 0, 3}.empty());
  CHECK(MatrixView<float>{memory.data(), 2, 0}.empty());
  for (const auto extent : {&ScoresView<float>::batch, &ScoresView<float>::heads,
                            &ScoresView<float>::queries, &ScoresView<float>::keys}) {
    ScoresView<float> scores{memory.data(), 2, 3, 4, 5};
    CHECK_FALSE(scores.empty());
    scores.*extent = 0;
    CHECK(scores.empty());
  }
}

TEST_CASE("slice: the same memory with fewer elements", "[view]") {
  auto memory = counted(120);
  const HeadsView<float> x = heads_of(memory);

  const HeadsView<float> heads = posenc::slice_heads(x, 1, 2);
  CHECK(heads.extents() == std::array<Index, 4>{2, 3, 2, 5});
  CHECK(heads.row(1, 2, 0) == x.row(1, 2, 1));

  const HeadsView<float> seq = posenc::slice_seq(x, 2, 1);
  CHECK(seq.extents() == std::array<Index, 4>{2, 1, 4, 5});
  CHECK(seq.row(1, 0, 3) == x.row(1, 2, 3));

  const HeadsView<float> features = posenc::slice_features(x, 3, 2);
  CHECK(features.extents() == std::array<Index, 4>{2, 3, 4, 2});
  CHECK(features.row(1, 2, 3) == x.row(1, 2, 3) + 3);

  const EmbeddingsView<float> tokens{
      .data = memory.data(), .batch = 2, .seq = 3, .dim = 20, .batch_stride = 60, .seq_stride = 20};
  CHECK(posenc::slice_seq(tokens, 1, 2).row(1, 1) == tokens.row(1, 2));
  CHECK(posenc::slice_features(tokens, 5, 5).row(1, 1) == tokens.row(1, 1) + 5);
  CHECK(posenc::slice_heads(x, 4, 0).empty());
}

TEST_CASE("slice: must lie within its axis", "[view]") {
  auto memory = counted(120);
  const HeadsView<float> x = heads_of(memory);
  CHECK_THROWS_MATCHES(
      posenc::slice_heads(x, 3, 2), ShapeError,
      Message("posenc::slice_heads: the slice [3, 5) must lie within the axis of 4"));
  CHECK_THROWS_MATCHES(
      posenc::slice_seq(x, -1, 2), ShapeError,
      Message("posenc::slice_seq: the slice [-1, 1) must lie within the axis of 3"));
  CHECK_THROWS_MATCHES(
      posenc::slice_features(x, 6, 0), ShapeError,
      Message("posenc::slice_features: the slice [6, 6) must lie within the axis of 5"));
  CHECK_THROWS_AS(posenc::slice_features(x, 2, -1), ShapeError);
  constexpr Index max_index = std::numeric_limits<Index>::max();
  CHECK_THROWS_AS(posenc::slice_heads(x, 0, max_index), ShapeError);
  CHECK_THROWS_MATCHES(
      posenc::slice_heads(x, 1, max_index), ShapeError,
      Message("posenc::slice_heads: the slice [1, more than 2^63 - 1) must lie within the axis "
              "of 4"));
  CHECK_THROWS_AS(posenc::slice_heads(x, max_index, 1), ShapeError);
}

TEST_CASE("split_heads: gives every head its share of the features", "[view]") {
  auto memory = counted(120);
  const EmbeddingsView<float> x{
      .data = memory.data(), .batch = 2, .seq = 3, .dim = 20, .batch_stride = 60, .seq_stride = 20};
  const HeadsView<float> heads = posenc::split_heads(x, 4);
  CHECK(heads.extents() == std::array<Index, 4>{2, 3, 4, 5});
  CHECK(*heads.row(1, 2, 3) == 60 + 40 + 15);
  CHECK_THROWS_MATCHES(
      posenc::split_heads(x, 3), ShapeError,
      Message("posenc::split_heads: the number of heads (3) must divide the last axis; x is "
              "[2, 3, 20]"));
  CHECK_THROWS_AS(posenc::split_heads(x, 0), ShapeError);
  CHECK_THROWS_AS(posenc::split_heads(x, -4), ShapeError);
}

}  // namespace view_test
