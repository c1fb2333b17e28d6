// SPDX-License-Identifier: MIT
// Tests DynamicNtkScaling as a function of the length.
#include "frequency/rejections.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/unscaled.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace dynamic_ntk_test {

using posenc::DynamicNtkScaling;
using posenc::Frequencies;
using posenc::frequencies;
using posenc::Index;
using namespace rejections;  // NOLINT: every check of a rejection

namespace {

constexpr DynamicNtkScaling rule{
    .rotary_dim = 64, .base = 10000, .factor = 2, .original_max_position = 2048};

Frequencies unscaled() { return frequencies(posenc::Unscaled{.rotary_dim = 64, .base = 10000}); }

Frequencies ntk(double factor) {
  return frequencies(posenc::NtkScaling{.rotary_dim = 64, .base = 10000, .factor = factor});
}

}  // namespace

TEST_CASE("DynamicNtkScaling: Unscaled bit for bit up to the trained length", "[dynamic_ntk]") {
  for (const Index length : {0, 1, 2047, 2048}) CHECK(frequencies(rule, length) == unscaled());
  CHECK(frequencies(rule, 2049) != unscaled());
}

TEST_CASE("DynamicNtkScaling: is a function of the length alone", "[dynamic_ntk]") {
  const std::array<Index, 5> lengths{100, 2048, 3000, 8192, 1000000};
  std::vector<Frequencies> rising, falling;
  for (auto l = lengths.begin(); l != lengths.end(); ++l) rising.push_back(frequencies(rule, *l));
  for (auto l = lengths.rbegin(); l != lengths.rend(); ++l) {
    falling.push_back(frequencies(rule, *l));
  }
  std::reverse(falling.begin(), falling.end());
  CHECK(rising == falling);
}

TEST_CASE("DynamicNtkScaling: is NTK with a factor that grows with the length", "[dynamic_ntk]") {
  // 2 * 8192 / 2048 - (2 - 1) = 7; 2 * 3072 / 2048 - 1 = 2
  CHECK(frequencies(rule, 8192) == ntk(7));
  CHECK(frequencies(rule, 3072) == ntk(2));
}

TEST_CASE("DynamicNtkScaling: factor 1 stretches by length / trained length, as in the YaRN paper",
          "[dynamic_ntk]") {
  DynamicNtkScaling paper = rule;
  paper.factor = 1;
  CHECK(frequencies(paper, 8192) == ntk(4));
  CHECK(frequencies(paper, 2048) == unscaled());
}

TEST_CASE("DynamicNtkScaling: a longer sequence never rotates faster", "[dynamic_ntk]") {
  auto previous = frequencies(rule, 2048).inv_freq();
  for (Index length = 2100; length < 200000; length *= 2) {
    const auto current = frequencies(rule, length).inv_freq();
    CHECK(current[0] == 1);
    for (std::size_t i = 1; i < current.size(); ++i) REQUIRE(current[i] < previous[i]);
    previous = current;
  }
}

TEST_CASE("DynamicNtkScaling: the length must not be negative", "[dynamic_ntk]") {
  CHECK_THROWS_MATCHES(frequencies(rule, -1), posenc::PositionError,
                       Catch::Matchers::Message(
                           "posenc::DynamicNtkScaling: the length must not be negative but is -1"));
}

TEST_CASE("DynamicNtkScaling: rejects bad settings", "[rules]") {
  const DynamicNtkScaling narrow{
      .rotary_dim = 8, .base = 10000, .factor = 2, .original_max_position = 2048};
  check_shared_fields(narrow, 4);
  check_factor(narrow);
  check_length(narrow);
}

}  // namespace dynamic_ntk_test
