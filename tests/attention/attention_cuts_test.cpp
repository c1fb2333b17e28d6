// SPDX-License-Identifier: MIT
// Tests that no bit of a query's result changes if random calls are divided, or expressed by other
// options.
#include "attention_case.hpp"
#include "part_of_call.hpp"
#include "random_call.hpp"
#include "random_shape.hpp"
#include "support/catch.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace attention_cuts_test {

using attention_test::Mask;
using attention_test::PartOfCall;
using attention_test::RandomCall;
using attention_test::same_bits;
using attention_test::Shape;
using attention_test::Some;
using attention_test::Without;
using posenc::Causal;
using posenc::Index;

namespace {

/// Returns a random shape. Every third one has several tiles of keys, every fifth many heads with
/// few keys, and every fifth one query of many heads.
Shape random_shape(support::Random& random, std::uint64_t seed) {
  if (seed % 5 == 4) return attention_test::many_heads_shape(random);
  if (seed % 5 == 2) return attention_test::single_rows_shape(random);
  const Index kv_heads = random.integer(1, 2);
  const bool large = seed % 3 == 0;
  return {random.integer(1, large ? 2 : 3),
          kv_heads * random.integer(1, 5),
          kv_heads,
          random.integer(1, large ? 40 : 9),
          random.integer(0, large ? 400 : 40),
          random.integer(1, 24),
          random.integer(1, 40)};
}

/// Calls test(call, seed) for random calls.
template <class T, class Test>
void for_random_calls(std::uint64_t first_seed, std::uint64_t count, const Without& without,
                      const Test& test) {
  support::Random random(first_seed);
  for (std::uint64_t seed = first_seed; seed < first_seed + count; ++seed) {
    RandomCall<T> call(seed, random_shape(random, seed), without);
    INFO("seed " << seed << ", " << call.c.shape.queries << " queries, " << call.c.shape.keys
                 << " keys");
    call.run();
    test(call, seed);
  }
}

/// Checks that no bit changes if one boolean mask replaces all rules that mask keys.
template <class T>
void check_one_mask(RandomCall<T>& call) {
  const Shape& s = call.c.shape;
  PartOfCall<T> part(call, {0, s.batch}, {0, s.heads}, {0, s.queries});
  Mask<bool> keep(s.batch, s.heads, s.queries, s.keys);
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.heads; ++h) {
      for (Index i = 0; i < s.queries; ++i) {
        for (Index j = 0; j < s.keys; ++j) keep.values(b, h, i, j) = call.sees(b, h, i, j);
      }
    }
  }
  for (const bool polarity : {true, false}) {
    part.options.causal = Causal::No;
    part.options.window = {};
    part.options.query_starts = {};
    part.options.key_lengths = {};
    part.options.keep = part.options.masked = {};
    (polarity ? part.options.keep : part.options.masked) = keep.view();
    part.run();
    CHECK(part.agrees_with(call, {0, s.batch}, {0, s.heads}, {0, s.queries}));
    for (Index n = 0; n < keep.values.size(); ++n) keep.values.data()[n] = !keep.values.data()[n];
  }
}

/// True if some query of the group of KV head kv sees the key.
template <class T>
bool seen_by_any(const RandomCall<T>& call, Index b, Index kv, Index j) {
  const Index group = call.c.shape.heads / call.c.shape.kv_heads;
  for (Index h = kv * group; h < (kv + 1) * group; ++h) {
    for (Index i = 0; i < call.c.shape.queries; ++i) {
      if (call.sees(b, h, i, j)) return true;
    }
  }
  return false;
}

template <class T>
bool hidden_by_addition(const RandomCall<T>& call, Index b, Index h, Index i, Index j) {
  return call.options.additive.data != nullptr &&
         std::isinf(static_cast<double>(call.additive.at(b, h, i, j)));
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("attention: a query's bits do not depend on the other queries",
                        "[attention][bits]", attention_test::Scalars) {
  using T = TestType;
  for_random_calls<T>(1, 60, {.packing = true}, [](RandomCall<T>& call, std::uint64_t) {
    const Shape& s = call.c.shape;
    // Their products are inexact, so the bits depend on the order of additions.
    const auto draw = [&call](T& x) { x = static_cast<T>(call.random.normal()); };
    call.c.q.for_each(draw), call.c.k.for_each(draw);
    call.run();
    for (const Index block : {Index{1}, call.random.integer(2, 17)}) {
      for (Index first = 0; first < s.queries; first += block) {
        const Some rows{0, s.batch}, heads{0, s.heads},
            queries{first, std::min(block, s.queries - first)};
        PartOfCall<T> part(call, rows, heads, queries);
        part.run();
        INFO("queries from " << first << " on, " << queries.count << " of them");
        CHECK(part.agrees_with(call, rows, heads, queries));
      }
    }
  });
}

TEMPLATE_LIST_TEST_CASE("attention: a batch row's bits do not depend on the other rows",
                        "[attention][bits]", attention_test::Scalars) {
  using T = TestType;
  // Excludes dropout, which reads the batch row, and packing, which has one batch row.
  const Without without{.packing = true, .dropout = true};
  for_random_calls<T>(101, 40, without, [](RandomCall<T>& call, std::uint64_t) {
    const Shape& s = call.c.shape;
    for (Index b = 0; b < s.batch; ++b) {
      PartOfCall<T> part(call, {b, 1}, {0, s.heads}, {0, s.queries});
      part.run();
      CHECK(part.agrees_with(call, {b, 1}, {0, s.heads}, {0, s.queries}));
    }
  });
}

TEMPLATE_LIST_TEST_CASE("attention: a head's bits do not depend on the others", "[attention][bits]",
                        attention_test::Scalars) {
  using T = TestType;
  // Excludes dropout and biases, which read the head, and packing.
  const Without without{.packing = true, .dropout = true, .bias = true};
  for_random_calls<T>(201, 40, without, [](RandomCall<T>& call, std::uint64_t) {
    const Shape& s = call.c.shape;
    for (Index h = 0; h < s.heads; ++h) {
      PartOfCall<T> part(call, {0, s.batch}, {h, 1}, {0, s.queries});
      part.run();
      CHECK(part.agrees_with(call, {0, s.batch}, {h, 1}, {0, s.queries}));
    }
  });
}

TEMPLATE_LIST_TEST_CASE("attention: a mask may hide keys in between from the query of every head",
                        "[attention][bits]", attention_test::Scalars) {
  using T = TestType;
  const Index keys = 300;
  for (const Index heads : {8, 16}) {
    attention_test::Case<T> c({1, heads, heads, 1, keys, 24, 24}, 11);
    Mask<bool> keep(1, 1, 1, keys);
    for (Index j = 0; j < keys; ++j) keep.values(0, 0, 0, j) = j < 64 || j >= 96;
    posenc::AttentionOptions<T> options{.causal = Causal::BottomRight};
    options.window = posenc::sliding_window(keys - 35);  // starts at an odd key
    options.keep = keep.view();
    c.run(options);
    support::Heads<T> alone(1, 1, 1, 24);
    const auto head = [](auto x, Index h) {
      x.data += h * x.head_stride;
      x.heads = 1;
      return x;
    };
    for (Index h = 0; h < heads; ++h) {
      attention_test::attend(head(c.q.view(), h), head(c.k.view(), h), head(c.v.view(), h),
                             alone.view(), options);
      INFO("head " << h << " of " << heads);
      CHECK(support::same_bits(alone.view(), head(c.out.view(), h)));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("attention: the layout changes no bit", "[attention][bits]",
                        attention_test::Scalars) {
  using T = TestType;
  for_random_calls<T>(301, 40, {}, [](RandomCall<T>& call, std::uint64_t seed) {
    const support::Layout& layout = support::layouts()[1 + seed % 4];
    RandomCall<T> other(seed, call.c.shape, {}, layout);
    other.run();
    INFO(layout.name);
    CHECK(support::same_bits(other.c.out.view(), call.c.out.view()));
    CHECK(same_bits(other.lse.view(), call.lse.view()));
  });
}

TEMPLATE_LIST_TEST_CASE(
    "attention: rules and lengths give the bits of the same keys in a boolean mask",
    "[attention][bits]", attention_test::Scalars) {
  using T = TestType;
  for_random_calls<T>(401, 60, {.packing = true},
                      [](RandomCall<T>& call, std::uint64_t) { check_one_mask(call); });
}

TEMPLATE_LIST_TEST_CASE("attention: asking for weights changes no bit", "[attention][bits]",
                        attention_test::Scalars) {
  using T = TestType;
  using posenc::ReturnedScores;
  for_random_calls<T>(501, 40, {}, [](RandomCall<T>& call, std::uint64_t seed) {
    const Shape& s = call.c.shape;
    auto out = call.c.out;
    auto lse = call.lse;
    Mask<posenc::Compute<T>> weights(s.batch, s.heads, s.queries, s.keys);
    call.memory.weights = weights.view();
    constexpr std::array stages{ReturnedScores::Probabilities, ReturnedScores::Scaled,
                                ReturnedScores::Masked};
    call.memory.returned = stages[seed / 3 % 3];
    call.run();
    CHECK(support::same_bits(call.c.out.view(), out.view()));
    CHECK(same_bits(call.lse.view(), lse.view()));
  });
}

TEMPLATE_LIST_TEST_CASE("attention: what no query sees may hold anything", "[attention][bits]",
                        attention_test::Scalars) {
  using T = TestType;
  const auto nan = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  for_random_calls<T>(601, 60, {}, [nan](RandomCall<T>& call, std::uint64_t) {
    const Shape& s = call.c.shape;
    auto out = call.c.out;
    auto lse = call.lse;
    for (Index b = 0; b < s.batch; ++b) {
      for (Index kv = 0; kv < s.kv_heads; ++kv) {
        for (Index j = 0; j < s.keys; ++j) {
          if (seen_by_any(call, b, kv, j)) continue;
          std::fill_n(call.c.k.view().row(b, j, kv), s.dim, nan);
          std::fill_n(call.c.v.view().row(b, j, kv), s.value_dim, nan);
        }
      }
    }
    call.run();
    CHECK(support::same_bits(call.c.out.view(), out.view()));
    CHECK(same_bits(call.lse.view(), lse.view()));
  });
}

TEMPLATE_LIST_TEST_CASE(
    "attention: a value that is not finite reaches only the queries that see it",
    "[attention][bits]", attention_test::Scalars) {
  using T = TestType;
  for_random_calls<T>(701, 90, {.dropout = true}, [](RandomCall<T>& call, std::uint64_t seed) {
    const Shape& s = call.c.shape;
    if (s.keys == 0) return;
    auto out = call.c.out;
    auto lse = call.lse;
    const float bads[] = {std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()};
    const Index j = call.random.integer(0, s.keys - 1), d = call.random.integer(0, s.value_dim - 1);
    for (Index b = 0; b < s.batch; ++b) {
      for (Index kv = 0; kv < s.kv_heads; ++kv) {
        call.c.v.view().row(b, j, kv)[d] = static_cast<T>(bads[seed / 3 % 3]);
      }
    }
    call.run();
    // Restores the elements that may have changed; all others must have the same bits.
    bool arrives = true;
    for (Index b = 0; b < s.batch; ++b) {
      for (Index h = 0; h < s.heads; ++h) {
        for (Index i = 0; i < s.queries; ++i) {
          if (!call.sees(b, h, i, j) || hidden_by_addition(call, b, h, i, j)) continue;
          T& got = call.c.out.view().row(b, i, h)[d];
          arrives &= !std::isfinite(support::to_double(got));
          got = out.view().row(b, i, h)[d];
        }
      }
    }
    INFO("value " << d << " of key " << j << " is " << bads[seed / 3 % 3]);
    CHECK(arrives);
    CHECK(support::same_bits(call.c.out.view(), out.view()));
    CHECK(same_bits(call.lse.view(), lse.view()));
  });
}

TEMPLATE_LIST_TEST_CASE("attention: a key that is not finite reaches only the queries that see it",
                        "[attention][bits]", attention_test::Scalars) {
  using T = TestType;
  const auto nan = static_cast<T>(std::numeric_limits<float>::quiet_NaN());
  for_random_calls<T>(801, 60, {.dropout = true}, [nan](RandomCall<T>& call, std::uint64_t) {
    const Shape& s = call.c.shape;
    if (s.keys == 0) return;
    auto out = call.c.out;
    auto lse = call.lse;
    const Index j = call.random.integer(0, s.keys - 1), d = call.random.integer(0, s.dim - 1);
    for (Index b = 0; b < s.batch; ++b) {
      for (Index kv = 0; kv < s.kv_heads; ++kv) call.c.k.view().row(b, j, kv)[d] = nan;
    }
    call.run();
    bool arrives = true;
    for (Index b = 0; b < s.batch; ++b) {
      for (Index h = 0; h < s.heads; ++h) {
        for (Index i = 0; i < s.queries; ++i) {
          if (!call.sees(b, h, i, j) || hidden_by_addition(call, b, h, i, j)) continue;
          T* got = call.c.out.view().row(b, i, h);
          for (Index e = 0; e < s.value_dim; ++e) arrives &= std::isnan(support::to_double(got[e]));
          arrives &= std::isnan(call.lse.values(b, h, i));
          std::copy_n(out.view().row(b, i, h), s.value_dim, got);
          call.lse.values(b, h, i) = lse.values(b, h, i);
        }
      }
    }
    INFO("key " << j);
    CHECK(arrives);
    CHECK(support::same_bits(call.c.out.view(), out.view()));
    CHECK(same_bits(call.lse.view(), lse.view()));
  });
}

}  // namespace attention_cuts_test
