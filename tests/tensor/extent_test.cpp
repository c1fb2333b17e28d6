// SPDX-License-Identifier: MIT
// Tests Extent, which tells an omitted extent from 0.
#include "support/catch.hpp"
#include <posenc/tensor/extent.hpp>
#include <posenc/tensor/view.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

namespace extent_test {

using Catch::Matchers::Message;
using posenc::EmbeddingsView;
using posenc::Extent;
using posenc::HeadsView;
using posenc::Index;
using posenc::LseView;
using posenc::MatrixView;
using posenc::ScoresView;
using posenc::ShapeError;

static_assert(std::is_aggregate_v<HeadsView<float>> &&
              std::is_trivially_copyable_v<HeadsView<float>>);
static_assert(!std::is_convertible_v<bool, Extent> && !std::is_convertible_v<double, Extent>);

TEST_CASE("Extent: an integer of any type", "[extent]") {
  const std::size_t large = 5;
  const std::int16_t small = 5;
  const unsigned number = 5;
  std::vector<float> memory(5 * 5 * 5);
  const EmbeddingsView<float> x{
      .data = memory.data(), .batch = large, .seq = small, .dim = number, .seq_stride = large};
  CHECK(x.extents() == std::array<Index, 3>{5, 5, 5});
  CHECK(x.batch_stride == 25);
  CHECK(x.seq_stride == 5);
  constexpr Extent extent = 7U;
  static_assert(extent == 7 && extent * 2 == 14 && !extent.is_omitted());
  static_assert(Extent(std::uint8_t{255}) == 255 && Extent(-3) == -3);
}

TEST_CASE("Extent: rejects an integer that an Index cannot hold", "[extent]") {
  constexpr auto largest = std::numeric_limits<std::uint64_t>::max();
  CHECK_THROWS_MATCHES(
      (HeadsView<float>{.batch = largest}), ShapeError,
      Message("posenc::Extent: an extent or stride must be at most 2^63 - 1 but is "
              "18446744073709551615"));
  CHECK_THROWS_AS((MatrixView<float>{.row_stride = largest / 2 + 1}), ShapeError);
  CHECK(Extent(largest / 2) == std::numeric_limits<Index>::max());
}

TEST_CASE("Extent: an omitted one is not 0", "[extent]") {
  CHECK(Extent().is_omitted());
  CHECK(HeadsView<float>{}.seq.is_omitted());
  CHECK(!Extent(0).is_omitted());
  CHECK(HeadsView<float>{}.empty());
  CHECK(MatrixView<float>{}.empty());
  int visited = 0;
  const EmbeddingsView<float> x;
  for (Index s = 0; s < x.seq; ++s) ++visited;
  CHECK(visited == 0);
}

TEST_CASE("Extent: the message names the view and the extent", "[extent]") {
  std::vector<float> memory(64);
  const auto check = [](const auto& view) { posenc::detail::check_extents("f", "x", view); };
  const auto refuses = [&](const auto& view, const char* field) {
    CHECK_THROWS_MATCHES(
        check(view), ShapeError,
        Message(std::string("posenc::f: x.") + field + " must be set, if only to 0"));
  };
  float* const data = memory.data();
  refuses(HeadsView<float>{.data = data, .seq = 1, .heads = 1, .dim = 1}, "batch");
  refuses(HeadsView<float>{.data = data, .batch = 1, .heads = 1, .dim = 1}, "seq");
  refuses(HeadsView<float>{.data = data, .batch = 1, .seq = 1, .dim = 1}, "heads");
  refuses(HeadsView<float>{.data = data, .batch = 1, .seq = 1, .heads = 1}, "dim");
  refuses(EmbeddingsView<float>{.data = data, .batch = 1, .dim = 1}, "seq");
  refuses(EmbeddingsView<float>{.data = data, .batch = 0, .seq = 1}, "dim");
  refuses(MatrixView<float>{.data = data, .cols = 1}, "rows");
  refuses(MatrixView<float>{.data = data, .rows = 1}, "cols");
  refuses(ScoresView<float>{.data = data, .batch = 1, .heads = 1, .keys = 1}, "queries");
  refuses(ScoresView<float>{.data = data, .batch = 1, .heads = 1, .queries = 1}, "keys");
  refuses(LseView<float>{.data = data, .batch = 1, .queries = 1}, "heads");
  refuses(HeadsView<float>{}, "batch");
  CHECK_NOTHROW(check(HeadsView<float>{.batch = 0, .seq = 0, .heads = 0, .dim = 0}));
  CHECK_THROWS_MATCHES(check(MatrixView<float>{.data = data, .rows = -1, .cols = 1}), ShapeError,
                       Message("posenc::f: x [-1, 1] must not have a negative extent"));
}

TEST_CASE("Extent: an optional view may be omitted as a whole alone", "[extent]") {
  float number = 0;
  const auto check = [](const auto& view) {
    posenc::detail::check_optional_extents("f", "x", view);
  };
  CHECK_NOTHROW(check(ScoresView<float>{}));
  CHECK_THROWS_AS(check(ScoresView<float>{.data = &number}), ShapeError);
  CHECK_THROWS_AS(check(ScoresView<float>{.batch = 1}), ShapeError);
}

}  // namespace extent_test
