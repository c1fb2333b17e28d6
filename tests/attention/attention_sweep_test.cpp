// SPDX-License-Identifier: MIT
// Random combinations of everything that attention() can be told, against the reference.
#include "attention_case.hpp"
#include "random_call.hpp"
#include "support/catch.hpp"

#include <cstdint>

using attention_test::RandomCall;
using attention_test::Shape;
using posenc::Index;

namespace {

/// One of the values.
template <class T>
T pick(support::Random& random, std::initializer_list<T> values) {
  return values.begin()[random.integer(0, static_cast<Index>(values.size()) - 1)];
}

Shape small_shape(support::Random& random) {
  const Index kv_heads = random.integer(1, 3);
  return {random.integer(1, 3),
          kv_heads * random.integer(1, 3),
          kv_heads,
          random.integer(0, 7),
          random.integer(0, 9),
          random.integer(1, 12),
          random.integer(1, 9)};
}

/// Edges of tiles (128 keys), of what lies side by side in one (32) and of vectors (16).
Shape edge_shape(support::Random& random) {
  const Index kv_heads = random.integer(1, 2);
  const Index group = pick<Index>(random, {1, 2, 3, 4, 7});
  return {1,
          kv_heads * group,
          kv_heads,
          pick<Index>(random, {1, 2, 3, 5, 12, 13, 24, 40}),
          pick<Index>(random, {1, 15, 16, 17, 31, 32, 33, 127, 128, 129, 255, 256, 257, 300}),
          pick<Index>(random, {1, 7, 8, 16, 31, 64, 80, 128}),
          pick<Index>(random, {1, 4, 15, 16, 17, 33, 64, 80, 100})};
}

template <class T>
void check(std::uint64_t seed, const Shape& shape, const support::Layout& layout) {
  RandomCall<T> call(seed, shape, {}, layout);
  call.run();
  INFO("seed " << seed << ": " << shape.heads << " heads over " << shape.kv_heads << ", "
               << shape.queries << " queries, " << shape.keys << " keys, dims " << shape.dim
               << " and " << shape.value_dim << ", " << layout.name);
  CHECK(worst_error(call.c, call.rules(), call.roundings, call.lse.view()) <= 1);
  CHECK(call.c.out.surroundings_kept());
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("attention equals the reference whatever is asked of it",
                        "[attention][sweep]", attention_test::Scalars) {
  support::Random random(1);
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    check<TestType>(seed, small_shape(random), support::layouts()[seed % 5]);
  }
}

TEMPLATE_LIST_TEST_CASE("attention equals the reference at the edges of tiles and vectors",
                        "[attention][sweep]", attention_test::Scalars) {
  support::Random random(2);
  for (std::uint64_t seed = 1001; seed <= 1160; ++seed) {
    check<TestType>(seed, edge_shape(random), support::layouts()[seed % 5]);
  }
}
