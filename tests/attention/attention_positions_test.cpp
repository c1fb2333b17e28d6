// SPDX-License-Identifier: MIT
// Tests the implied positions that a bias reads, and when positions are required.
#include "attention_case.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/bias/alibi.hpp>

#include <vector>

namespace attention_positions_test {

using attention_test::Case;
using attention_test::Shape;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::ConfigError;
using posenc::Index;
using posenc::Positions;
using support::message_of;

namespace {

posenc::Alibi alibi_of(const Shape& shape) {
  return posenc::Alibi({.heads = shape.heads, .form = posenc::AlibiForm::Symmetric});
}

/// True if attention with ALiBi gives equal bits for both options.
bool agree(const Shape& shape, const AttentionOptions<float>& a, const AttentionOptions<float>& b) {
  Case<float> left(shape, 1), right(shape, 1);
  left.run(a, alibi_of(shape));
  right.run(b, alibi_of(shape));
  return support::same_bits(left.out.view(), right.out.view());
}

}  // namespace

TEST_CASE("query_positions: implied by the causal alignment", "[attention][positions]") {
  const Shape same{2, 2, 1, 5, 5}, fewer{2, 2, 1, 3, 8}, more{2, 2, 1, 8, 3};
  for (const auto& shape : {same, fewer, more}) {
    INFO(shape.queries << " queries, " << shape.keys << " keys");
    CHECK(agree(shape, {.causal = Causal::TopLeft},
                {.causal = Causal::TopLeft,
                 .query_positions = Positions::range(0, shape.queries),
                 .key_positions = Positions::range(0, shape.keys)}));
    CHECK(agree(shape, {.causal = Causal::BottomRight},
                {.causal = Causal::BottomRight,
                 .query_positions = Positions::range(shape.keys - shape.queries, shape.queries)}));
  }
  CHECK(agree(same, {.causal = Causal::No},
              {.causal = Causal::No, .query_positions = Positions::range(0, 5)}));
}

TEST_CASE("Causal::BottomRight: counts from each batch row's last key", "[attention][positions]") {
  const Shape shape{3, 2, 1, 3, 8};
  const std::vector<Index> lengths{8, 3, 5};
  CHECK(agree(shape, {.causal = Causal::BottomRight, .key_lengths = lengths},
              {.causal = Causal::BottomRight,
               .key_lengths = lengths,
               .query_positions = Positions::starts({5, 0, 2}, 3)}));
}

TEST_CASE("bias: needs positions where nothing implies them", "[attention][positions][errors]") {
  const Shape shape{1, 2, 2, 3, 8};
  Case<float> c(shape, 2);
  CHECK(message_of<ConfigError>([&] { c.run({.causal = Causal::No}, alibi_of(shape)); }) ==
        "posenc::attention: a bias requires query_positions or query_starts for 3 queries and 8 "
        "keys without a causal alignment");
  const support::Heads<float> untouched(1, 3, 2, 8);
  CHECK(support::same_bits(c.out.view(), support::Heads<float>(untouched).view()));
  CHECK_NOTHROW(
      c.run({.causal = Causal::No, .query_positions = Positions::range(5, 3)}, alibi_of(shape)));
  CHECK_NOTHROW(c.run({.causal = Causal::No}));
}

TEST_CASE("key_positions: do not imply the positions of queries",
          "[attention][positions][errors]") {
  // Implied query positions 0, 1, 2 with key positions 100, 101, 102 would be a mistake.
  const Shape shape{1, 2, 2, 3, 3};
  Case<float> c(shape, 3);
  for (const auto causal : {Causal::No, Causal::TopLeft, Causal::BottomRight}) {
    CHECK(message_of<ConfigError>([&] {
            c.run({.causal = causal, .key_positions = Positions::range(100, 3)}, alibi_of(shape));
          }) == "posenc::attention: a bias requires query_positions if key_positions are set");
  }
  CHECK_NOTHROW(c.run({.causal = Causal::No, .key_positions = Positions::range(100, 3)}));
}

TEST_CASE("Alibi: only differences of positions count", "[attention][positions]") {
  const Shape shape{1, 2, 2, 4, 6};
  const auto at = [](Index start) {
    return AttentionOptions<float>{.causal = Causal::No,
                                   .query_positions = Positions::range(start + 2, 4),
                                   .key_positions = Positions::range(start, 6)};
  };
  CHECK(agree(shape, at(0), at(123456789)));
}

}  // namespace attention_positions_test
