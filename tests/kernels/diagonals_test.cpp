// SPDX-License-Identifier: MIT
// Tests that diagonals of a table are copied and looked up alike on every tier.
#include "simd/tiers.hpp"
#include <posenc/kernels/diagonals.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace diagonals_test {

TEMPLATE_LIST_TEST_CASE("diagonals: of a table become rows on every tier", "[attention][simd]",
                        tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  constexpr auto width = static_cast<std::size_t>(P::width), count = 2 * width - 1;
  P rows[count];
  std::vector<T> numbers(width);
  for (std::size_t t = 0; t < count; ++t) {
    for (std::size_t u = 0; u < width; ++u) numbers[u] = static_cast<T>(100 * t + u);
    rows[t] = P::load(numbers.data());
  }
  posenc::detail::extract_diagonals<T>(rows);
  for (std::size_t t = 0; t < width; ++t) {
    const auto lanes = tiers::lanes_of(rows[t]);
    for (std::size_t u = 0; u < width; ++u) CHECK(lanes[u] == static_cast<T>(100 * (t + u) + u));
  }
}

TEMPLATE_LIST_TEST_CASE("diagonals: places are looked up, near ones and far ones",
                        "[attention][simd]", tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  constexpr auto width = static_cast<std::size_t>(P::width);
  std::vector<T> numbers(40 * width);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<T>(i);
  for (const bool ascending : {true, false}) {
    for (std::int32_t step = 0; step <= 20; ++step) {
      // Indices with a stride of a third of `step`, sorted and unsorted.
      std::vector<std::int32_t> places(width);
      for (std::size_t u = 0; u < width; ++u) {
        const auto n = static_cast<std::int32_t>(ascending ? u : (u * 5) % width);
        places[u] = 7 + n * step / 3;
      }
      const auto lanes =
          tiers::lanes_of(posenc::detail::gather<P>(numbers.data(), places.data(), ascending));
      for (std::size_t u = 0; u < width; ++u) CHECK(lanes[u] == static_cast<T>(places[u]));
    }
  }
}

}  // namespace diagonals_test
