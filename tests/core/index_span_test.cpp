// SPDX-License-Identifier: MIT
// Conversions to IndexSpan from containers, pointers and lists of 32 and 64 bits.
#include "support/catch.hpp"
#include <posenc/core/index_span.hpp>
#include <posenc/core/list_view.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace index_span_test {

using posenc::Index;
using posenc::IndexSpan;

namespace {

std::vector<Index> read(IndexSpan span) {
  std::vector<Index> values;
  for (std::size_t n = 0; n < span.size(); ++n) values.push_back(span[n]);
  return values;
}

}  // namespace

TEMPLATE_TEST_CASE("IndexSpan: reads vectors, arrays, spans, lists and pointers", "[list]",
                   std::int32_t, std::int64_t) {
  using Id = TestType;
  constexpr Id low = std::numeric_limits<Id>::min(), high = std::numeric_limits<Id>::max();
  const std::vector<Index> values{low, 1, high};
  std::vector<Id> vector{low, 1, high};
  const std::array<Id, 3> array{low, 1, high};
  const Id plain[] = {low, 1, high};
  CHECK(read(vector) == values);
  CHECK(read(array) == values);
  CHECK(read(plain) == values);
  CHECK(read(std::span<Id>(vector)) == values);
  CHECK(read(std::span<const Id>(vector)) == values);
  CHECK(read(posenc::ListView<Id>(vector)) == values);
  CHECK(read({vector.data(), 3}) == values);
  CHECK(read(IndexSpan(vector)) == values);
  CHECK(IndexSpan(vector).front() == low);
  CHECK(IndexSpan(vector).back() == high);
  CHECK(read(IndexSpan(vector).subspan(1, 2)) == std::vector<Index>{1, high});
  CHECK(IndexSpan(std::vector<Id>()).empty());

  vector[1] = 7;
  const IndexSpan span(vector);
  vector[1] = 8;
  CHECK(span[1] == 8);  // it owns nothing
}

TEST_CASE("IndexList: reads what an IndexSpan reads, and braced lists", "[list]") {
  const auto sum = [](posenc::IndexList list) {
    const IndexSpan span = list;  // is a view of the same integers
    Index total = 0;
    for (const Index value : read(span)) total += value;
    return total;
  };
  const std::vector<std::int32_t> short_list{1, 2, 4};
  const std::vector<Index> long_list{1, 2, 8};
  CHECK(sum({1, 5}) == 6);
  CHECK(sum({}) == 0);
  CHECK(sum(short_list) == 7);
  CHECK(sum(long_list) == 11);
  CHECK(sum(IndexSpan(short_list)) == 7);
  CHECK(sum({long_list.data(), 2}) == 3);
}

TEST_CASE("IndexSpan: visit() has the integers in their own type", "[list]") {
  const std::vector<std::int32_t> short_list{1, 2};
  const std::vector<Index> long_list{1, 2, 8};
  const auto bytes = [](auto span) { return sizeof(span[0]) * span.size(); };
  CHECK(IndexSpan(short_list).visit(bytes) == 8);
  CHECK(IndexSpan(long_list).visit(bytes) == 24);
}

TEST_CASE("IndexSpan: an empty one has no integers", "[list]") {
  CHECK(IndexSpan().empty());
  CHECK(read({}).empty());
}

}  // namespace index_span_test
