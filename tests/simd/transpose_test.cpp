// SPDX-License-Identifier: MIT
// Tests the transpose of squares of lanes on every tier.
#include "tiers.hpp"
#include <posenc/simd/transpose.hpp>

namespace transpose_test {

TEMPLATE_LIST_TEST_CASE("transpose on every tier: rows become lanes", "[simd][transpose]",
                        tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  constexpr auto width = static_cast<std::size_t>(P::width);
  std::vector<T> from(width * width), to(width * width);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i + 1);
  P rows[width];
  for (std::size_t i = 0; i < width; ++i) rows[i] = P::load(from.data() + i * width);
  transpose(rows);
  for (std::size_t i = 0; i < width; ++i) rows[i].store(to.data() + i * width);
  for (std::size_t i = 0; i < width; ++i) {
    for (std::size_t j = 0; j < width; ++j) CHECK(to[i * width + j] == from[j * width + i]);
  }
}

}  // namespace transpose_test
