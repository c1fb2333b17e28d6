// SPDX-License-Identifier: MIT
// Compares random combinations of all options of attention() with the reference.
#include "attention_case.hpp"
#include "random_call.hpp"
#include "random_shape.hpp"
#include "support/catch.hpp"
#include "support/sampled.hpp"

#include <cstdint>

namespace attention_sweep_test {

using attention_test::edge_shape;
using attention_test::RandomCall;
using attention_test::Shape;
using attention_test::small_shape;

namespace {

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

TEMPLATE_LIST_TEST_CASE("attention: equals the reference under random options",
                        "[attention][sweep]", attention_test::Scalars) {
  support::Random random(1);
  for (std::uint64_t seed = 1; seed <= support::sampled(400); ++seed) {
    check<TestType>(seed, small_shape(random), support::layouts()[seed % 5]);
  }
}

TEMPLATE_LIST_TEST_CASE("attention: equals the reference at the edges of tiles and vectors",
                        "[attention][sweep]", attention_test::Scalars) {
  support::Random random(2);
  for (std::uint64_t seed = 1001; seed <= 1000 + support::sampled(160); ++seed) {
    check<TestType>(seed, edge_shape(random), support::layouts()[seed % 5]);
  }
}

}  // namespace attention_sweep_test
