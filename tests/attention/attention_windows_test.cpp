// SPDX-License-Identifier: MIT
// Tests windows around the aligned key of a query, under every causal alignment.
#include "attention_case.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"

#include <limits>
#include <string>
#include <vector>

namespace attention_windows_test {

using attention_test::Case;
using attention_test::Mask;
using attention_test::seeing;
using attention_test::Shape;
using attention_test::worst_error;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::Index;
using posenc::Positions;
using posenc::sliding_window;
using posenc::Window;

namespace {

using Picture = std::vector<std::string>;

/// Returns a line for each query, with an x for each key that it sees.
Picture picture_of(const AttentionOptions<float>& options, Index queries, Index keys, Index row = 0,
                   Index batch = 1) {
  Case<float> c({batch, 1, 1, queries, keys}, 1);
  Mask<float> weights(batch, 1, queries, keys);
  c.run(options, {}, {.weights = weights.view()});
  Picture picture;
  for (Index i = 0; i < queries; ++i) {
    std::string line;
    for (Index j = 0; j < keys; ++j) line += weights.at(row, 0, i, j) > 0 ? 'x' : '.';
    picture.push_back(line);
  }
  return picture;
}

constexpr Index most = std::numeric_limits<Index>::max();

}  // namespace

TEST_CASE("window: W shows W keys, the query's own included", "[attention][window]") {
  CHECK(sliding_window(3).left == 2);
  CHECK(sliding_window(3).right == 0);
  const Picture three{"x.....", "xx....", "xxx...", ".xxx..", "..xxx.", "...xxx"};
  CHECK(picture_of({.causal = Causal::TopLeft, .window = sliding_window(3)}, 6, 6) == three);
  CHECK(picture_of({.causal = Causal::BottomRight, .window = sliding_window(3)}, 6, 6) == three);
  CHECK(picture_of({.causal = Causal::No, .window = sliding_window(3)}, 6, 6) == three);
  CHECK(picture_of({.causal = Causal::TopLeft, .window = {.left = 2}}, 6, 6) == three);
  CHECK(picture_of({.causal = Causal::TopLeft, .window = {.left = 2, .right = 5}}, 6, 6) == three);
  CHECK(picture_of({.causal = Causal::No, .window = sliding_window(1)}, 3, 3) ==
        Picture{"x..", ".x.", "..x"});
}

TEST_CASE("window: has two sides, and -1 has no end", "[attention][window]") {
  CHECK(picture_of({.causal = Causal::No, .window = {.left = 1, .right = 2}}, 6, 6) ==
        Picture{"xxx...", "xxxx..", ".xxxx.", "..xxxx", "...xxx", "....xx"});
  CHECK(picture_of({.causal = Causal::No, .window = {.left = 1}}, 4, 4) ==
        Picture{"xxxx", "xxxx", ".xxx", "..xx"});
  CHECK(picture_of({.causal = Causal::No, .window = {.right = 1}}, 4, 4) ==
        Picture{"xx..", "xxx.", "xxxx", "xxxx"});
  CHECK(picture_of({.causal = Causal::No, .window = {.right = 0}}, 3, 3) ==
        Picture{"x..", "xx.", "xxx"});
  CHECK(picture_of({.causal = Causal::No, .window = {}}, 2, 2) == Picture{"xx", "xx"});
}

TEST_CASE("window: goes where the alignment puts the query", "[attention][window]") {
  const Window window{.left = 1, .right = 0};
  CHECK(picture_of({.causal = Causal::TopLeft, .window = window}, 2, 5) ==
        Picture{"x....", "xx..."});
  CHECK(picture_of({.causal = Causal::BottomRight, .window = window}, 2, 5) ==
        Picture{"..xx.", "...xx"});
  const std::vector<Index> two{2};
  CHECK(picture_of({.causal = Causal::FromStart, .window = window, .query_starts = two}, 2, 5) ==
        Picture{".xx..", "..xx."});
  CHECK(picture_of({.causal = Causal::No, .window = window, .query_starts = two}, 2, 5) ==
        Picture{".xx..", "..xx."});
  CHECK(picture_of({.causal = Causal::No, .window = {.left = 0, .right = 1}, .query_starts = two},
                   2, 5) == Picture{"..xx.", "...xx"});
  // With more queries than keys, the first queries are aligned before the first key (BottomRight),
  // or the last ones after the last key (TopLeft).
  CHECK(picture_of({.causal = Causal::BottomRight, .window = window}, 4, 2) ==
        Picture{"..", "..", "x.", "xx"});
  CHECK(picture_of({.causal = Causal::TopLeft, .window = window}, 4, 2) ==
        Picture{"x.", "xx", ".x", ".."});
  const std::vector<Index> before{-2};
  CHECK(
      picture_of({.causal = Causal::No, .window = {.left = 0, .right = 1}, .query_starts = before},
                 4, 2) == Picture{"..", "x.", "xx", ".x"});
}

TEST_CASE("window: each batch row has its own start and its own length", "[attention][window]") {
  const std::vector<Index> starts{3, 0}, lengths{3, 5}, one{1};
  const AttentionOptions<float> from_start{
      .causal = Causal::FromStart, .window = {.left = 1}, .query_starts = starts};
  CHECK(picture_of(from_start, 2, 5, 0, 2) == Picture{"..xx.", "...xx"});
  CHECK(picture_of(from_start, 2, 5, 1, 2) == Picture{"x....", "xx..."});
  const AttentionOptions<float> by_length{
      .causal = Causal::BottomRight, .window = {.left = 1}, .key_lengths = lengths};
  CHECK(picture_of(by_length, 2, 5, 0, 2) == Picture{"xx...", ".xx.."});
  CHECK(picture_of(by_length, 2, 5, 1, 2) == Picture{"..xx.", "...xx"});
  const AttentionOptions<float> for_all{.causal = Causal::FromStart, .query_starts = one};
  CHECK(picture_of(for_all, 2, 4, 0, 2) == Picture{"xx..", "xxx."});
  CHECK(picture_of(for_all, 2, 4, 1, 2) == Picture{"xx..", "xxx."});
  // Lengths mask keys but do not change the alignment of TopLeft.
  const AttentionOptions<float> top_left{
      .causal = Causal::TopLeft, .window = {.left = 1}, .key_lengths = lengths};
  CHECK(picture_of(top_left, 5, 5, 0, 2) == Picture{"x....", "xx...", ".xx..", "..x..", "....."});
}

TEST_CASE("window: by position counts positions and not keys", "[attention][window]") {
  const AttentionOptions<float> options{.causal = Causal::ByPosition,
                                        .window = {.left = 3},
                                        .query_positions = Positions::ids({7, 100, 5}),
                                        .key_positions = Positions::ids({0, 4, 7, 5, 99, 97, 96})};
  CHECK(picture_of(options, 3, 7) == Picture{".xxx...", "....xx.", ".x.x..."});
  AttentionOptions<float> sorted = options;
  sorted.key_positions = Positions::ids({0, 2, 4, 5, 5, 7, 9});
  CHECK(picture_of(sorted, 3, 7) == Picture{"..xxxx.", ".......", ".xxxx.."});
  sorted.query_positions = Positions::real({6.5, 7.5, 1.75});
  sorted.key_positions = Positions::real({-1.25, 0, 3.5, 4.5, 6.5, 6.75, 8});
  CHECK(picture_of(sorted, 3, 7) == Picture{"..xxx..", "...xxx.", "xx....."});
}

TEST_CASE("window: as wide as can be written hides nothing", "[attention][window]") {
  const std::vector<Index> before{-5}, behind{9};
  for (const Window& window : {Window{most, -1}, Window{-1, most}, Window{most, most}}) {
    CHECK(picture_of({.causal = Causal::No, .window = window}, 2, 2) == Picture{"xx", "xx"});
    CHECK(picture_of({.causal = Causal::BottomRight, .window = window}, 3, 2) ==
          Picture{"..", "x.", "xx"});
    CHECK(picture_of({.causal = Causal::No, .window = window, .query_starts = before}, 2, 2) ==
          Picture{"xx", "xx"});
    CHECK(picture_of({.causal = Causal::No, .window = window, .query_starts = behind}, 2, 2) ==
          Picture{"xx", "xx"});
  }
  constexpr Index far = Index{1} << 53;
  const std::vector<Index> beyond{far}, below{-far};
  CHECK(picture_of({.causal = Causal::FromStart, .query_starts = beyond}, 2, 2) ==
        Picture{"xx", "xx"});
  CHECK(picture_of({.causal = Causal::FromStart, .query_starts = below}, 2, 2) ==
        Picture{"..", ".."});
}

TEST_CASE("window: must show the query's own key", "[attention][window][errors]") {
  using support::message_of;
  const std::string rule =
      "posenc::sliding_window: window must be at least 1, the query's own key, but is ";
  CHECK(message_of<posenc::ConfigError>([] { sliding_window(0); }) == rule + "0");
  CHECK(message_of<posenc::ConfigError>([] { sliding_window(-4); }) == rule + "-4");
}

TEMPLATE_LIST_TEST_CASE("window: equals the reference, wider and narrower than tiles",
                        "[attention][window]", attention_test::Scalars) {
  for (const Index keys : {127, 128, 129, 257, 400}) {
    Case<TestType> c({1, 2, 1, 9, keys, 8, 16}, 3);
    for (const Index left : {0, 1, 31, 32, 126, 127, 128, 129, 255, 300}) {
      INFO(keys << " keys, window of " << left + 1);
      c.run({.causal = Causal::BottomRight, .window = {.left = left, .right = 0}});
      CHECK(worst_error(c, seeing(c, [=](Index, Index, Index i, Index j) {
                          const Index place = i + keys - 9;
                          return j <= place && j >= place - left;
                        })) <= 1);
    }
  }
}

}  // namespace attention_windows_test
