// SPDX-License-Identifier: MIT
// Compares gradients of random combinations of all options of attention() with the reference.
#define EIGEN_USE_THREADS
#include "backward_case.hpp"
#include "random_shape.hpp"
#include "support/catch.hpp"
#include "support/sampled.hpp"

#include <cstdint>

namespace attention_backward_test {

using attention_test::BackwardCall;
using attention_test::Shape;
using posenc::Index;

namespace {

template <class T>
void check(std::uint64_t seed, const Shape& shape, const support::Layout& layout) {
  BackwardCall<T> call(seed, shape, {}, layout);
  call.run();
  const auto worst = worst_gradient(call);
  INFO("seed " << seed << ": batch " << shape.batch << ", " << shape.heads << " heads over "
               << shape.kv_heads << ", " << shape.queries << " queries, " << shape.keys
               << " keys, dims " << shape.dim << " and " << shape.value_dim << ", " << layout.name
               << "; " << worst.where);
  CHECK(worst.share <= 1);
  for (const auto* x : {&call.got.q, &call.got.k, &call.got.v}) CHECK(x->surroundings_kept());
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("attention_backward: equals the reference under random options",
                        "[attention][backward][sweep]", attention_test::Scalars) {
  support::Random random(1);
  for (std::uint64_t seed = 1; seed <= support::sampled(300); ++seed) {
    check<TestType>(seed, attention_test::small_shape(random), support::layouts()[seed % 5]);
  }
}

TEMPLATE_LIST_TEST_CASE(
    "attention_backward: equals the reference at the edges of tiles and vectors",
    "[attention][backward][sweep]", attention_test::Scalars) {
  support::Random random(2);
  for (std::uint64_t seed = 1001; seed <= 1000 + support::sampled(40); ++seed) {
    check<TestType>(seed, attention_test::edge_shape(random), support::layouts()[seed % 5]);
  }
}

TEMPLATE_TEST_CASE("attention_backward: equals the reference over several blocks and tiles",
                   "[attention][backward][sweep]", float, double) {
  support::Random random(3);
  for (std::uint64_t seed = 2001; seed <= 2000 + support::sampled(12); ++seed) {
    const Index group = random.integer(1, 2);
    check<TestType>(seed,
                    {1, group, 1, random.integer(190, 400), random.integer(120, 400),
                     random.integer(1, 20), random.integer(1, 20)},
                    support::layouts()[seed % 5]);
  }
}

}  // namespace attention_backward_test
