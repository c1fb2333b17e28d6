// SPDX-License-Identifier: MIT
// Tests relative biases on every tier that the flags allow.
#include "random_call.hpp"
#include "random_shape.hpp"
#include "relative_case.hpp"
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include "support/sampled.hpp"
#include <posenc/attention/detail/attend.hpp>

#include <cstdint>

namespace relative_tiers_test {

using attention_test::RandomCall;
using attention_test::RelativeCase;
using attention_test::Shape;

TEMPLATE_LIST_TEST_CASE("RelativeBias: equals the reference on every tier",
                        "[attention][relative][tiers]", tiers::AllWith<float>) {
  using Tier = typename TestType::Tier;
  support::Random random(8), of_tables(9);
  for (std::uint64_t seed = 1; seed <= support::sampled(80); ++seed) {
    const Shape shape =
        seed % 3 == 0 ? attention_test::edge_shape(random) : attention_test::small_shape(random);
    const auto table = attention_test::random_table(of_tables, shape.keys);
    if (shape.heads == 0) continue;
    RandomCall<float> call(seed, shape, {.bias = true});
    RelativeCase<float> relative(call, table);
    const auto bias = relative.bias();
    posenc::detail::attend_to_tensors<Tier, float, float>(
        posenc::detail::ErasedDevice(posenc::detail::CallingThread()), call.c.q.view(),
        call.c.k.view(), call.c.v.view(), call.c.out.view(), call.options,
        posenc::detail::bias_for_tensors<Tier, float>(bias), call.memory, {});
    INFO(Tier::name << ", seed " << seed << ": " << attention_test::words_of(shape, table));
    CHECK(worst_error(call.c, relative.rules(), attention_test::roundings_with_bias(call.roundings),
                      call.lse.view()) <= 1);
  }
}

}  // namespace relative_tiers_test
