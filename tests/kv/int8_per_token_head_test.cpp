// SPDX-License-Identifier: MIT
// Integers and scales of Int8PerTokenHead are those of its definition in double, and attention over
// such a cache is that of the reference over the defined rows. Its laws: kv_format_test.cpp.
#include "attention/attention_case.hpp"
#include "reference/attention.hpp"
#include "reference/float16.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/kv/cached_attention.hpp>
#include <posenc/kv/int8_per_token_head.hpp>
#include <posenc/kv/kv_cache.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

namespace int8_per_token_head_test {

using posenc::Index;
using posenc::Int8PerTokenHead;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Returns the row that the format stores, by its definition, for finite numbers.
std::vector<double> defined_row(const std::vector<float>& row) {
  double most = 0;
  for (const float x : row) most = std::max(most, std::abs(static_cast<double>(x)));
  // The quotient is a float, which is rounded once more.
  const double quotient = static_cast<double>(static_cast<float>(most) / 127.0F);
  const double scale =
      reference::decode(reference::bfloat16, reference::encode(reference::bfloat16, quotient));
  std::vector<double> stored;
  for (const float x : row) {
    stored.push_back(scale < 0x1p-126 ? 0 : std::nearbyint(static_cast<double>(x) / scale) * scale);
  }
  return stored;
}

std::vector<std::byte> encoded(const std::vector<float>& row) {
  std::vector<std::byte> stored(
      static_cast<std::size_t>(Int8PerTokenHead::row_bytes(static_cast<Index>(row.size()))));
  Int8PerTokenHead::encode(row, stored);
  return stored;
}
std::vector<float> decoded(const std::vector<float>& row) {
  std::vector<float> result(row.size());
  Int8PerTokenHead::decode(encoded(row), result);
  return result;
}

}  // namespace

TEST_CASE("Int8PerTokenHead: stores the integers of its definition", "[cache]") {
  support::Random random(1);
  for (const std::size_t channels : {1u, 2u, 31u, 32u, 33u, 64u, 100u, 128u}) {
    for (int exponent = -130; exponent <= 120; exponent += 5) {
      std::vector<float> row(channels);
      random.fill_normal(row);
      for (float& x : row) x = std::ldexp(x, exponent);
      const std::vector<double> expected = defined_row(row);
      const std::vector<float> got = decoded(row);
      CAPTURE(channels, exponent);
      REQUIRE(std::equal(got.begin(), got.end(), expected.begin(),
                         [](float a, double b) { return static_cast<double>(a) == b; }));
    }
  }
}

TEST_CASE("Int8PerTokenHead: rounds ties to even", "[cache]") {
  CHECK(decoded({127, 0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F}) ==
        std::vector<float>{127, 0, 2, 2, 0, -2, -2});
}

TEST_CASE("Int8PerTokenHead: has a scale of bfloat16 and a byte per channel", "[cache]") {
  STATIC_REQUIRE(Int8PerTokenHead::row_bytes(128) == 130);
  const std::vector<std::byte> stored = encoded({-254, 2, 127, 6});
  posenc::Bfloat16 scale;
  std::memcpy(&scale, stored.data(), sizeof scale);
  CHECK(scale == 2);
  const std::int8_t expected[] = {-127, 1, 64, 3};  // 63.5 is a tie
  CHECK(std::memcmp(stored.data() + 2, expected, sizeof expected) == 0);
}

TEST_CASE("Int8PerTokenHead: rows of zeros, of small numbers, and that are not finite", "[cache]") {
  const std::vector<float> zeros(20);
  CHECK(decoded(zeros) == zeros);
  CHECK(decoded(std::vector<float>(20, 1e-40F)) == zeros);
  CHECK(decoded(std::vector<float>(20, -0x1p-120F)) == zeros);
  CHECK(decoded(std::vector<float>(20, 0x1p-119F)).back() > 0);
  for (const float x : {infinity, -infinity, std::nanf("")}) {
    for (const std::size_t at : {0u, 18u}) {
      std::vector<float> row(19, 1.0F);
      row[at] = x;
      for (const float y : decoded(row)) CHECK(std::isnan(y));
    }
  }
}

TEST_CASE("attention over KvCache: Int8PerTokenHead is the reference over the defined rows",
          "[attention][cache]") {
  using attention_test::Case;
  Case<float> c({1, 4, 2, 5, 200, 40, 24}, 7);
  support::Random random(8);
  for (auto* x : {&c.q, &c.k})
    x->for_each([&](float& value) { value = static_cast<float>(2 * random.normal()); });
  posenc::KvCache<Int8PerTokenHead> cache(
      {.kv_heads = 2, .head_dim = 40, .value_dim = 24, .capacity = 200});
  cache.append(0, c.k.view(), c.v.view());
  posenc::attention(c.q.view(), cache, {0}, c.out.view(), {.causal = posenc::Causal::BottomRight});

  const auto rows_of = [](posenc::HeadsView<float> x, Index head, bool stored) {
    reference::Matrix rows(x.seq, x.dim);
    for (Index s = 0; s < x.seq; ++s) {
      const std::vector<float> row(x.row(0, s, head), x.row(0, s, head) + x.dim);
      const std::vector<double> defined =
          stored ? defined_row(row) : std::vector<double>(row.begin(), row.end());
      for (Index d = 0; d < x.dim; ++d) rows(s, d) = defined[static_cast<std::size_t>(d)];
    }
    return rows;
  };
  reference::AttentionRule rule;
  rule.scale = c.default_scale();
  rule.allowed = [](std::int64_t i, std::int64_t j) { return j <= i + 195; };
  double worst = 0, worst_of_exact = 0;
  for (Index h = 0; h < 4; ++h) {
    const auto q = rows_of(c.q.view(), h, false);
    for (const bool stored : {true, false}) {
      const auto expected = reference::attention(q, rows_of(c.k.view(), h / 2, stored),
                                                 rows_of(c.v.view(), h / 2, stored), rule);
      double& error = stored ? worst : worst_of_exact;
      for (Index s = 0; s < 5; ++s) {
        for (Index d = 0; d < 24; ++d) {
          const auto got = static_cast<double>(c.out.view().row(0, s, h)[d]);
          error = support::worse(error, std::abs(got - expected.output(s, d)));
        }
      }
    }
  }
  CHECK(worst < 2e-6);
  // Without rounding the reference differs by the error of 8 bits.
  CHECK(worst_of_exact < 0.1);
  CHECK(worst_of_exact > 1e-4);
}

}  // namespace int8_per_token_head_test
