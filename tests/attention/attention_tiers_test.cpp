// SPDX-License-Identifier: MIT
// Tests all stages of attention on every tier that the flags allow, not only on the best one.
#include "attention_case.hpp"
#include "random_call.hpp"
#include "random_shape.hpp"
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include "support/sampled.hpp"
#include <posenc/attention/detail/attend.hpp>

#include <Eigen/Core>

#include <cstdint>

namespace attention_tiers_test {

using attention_test::edge_shape;
using attention_test::many_heads_shape;
using attention_test::RandomCall;
using attention_test::Shape;
using attention_test::small_shape;

namespace {

using OnTiers = tiers::Joined<tiers::AllWith<float>, tiers::AllWith<double>,
                              tiers::AllWith<Eigen::half>, tiers::AllWith<Eigen::bfloat16>>;

template <class Tier, class T>
void check(std::uint64_t seed, const Shape& shape) {
  const support::Layout layout = support::layouts()[seed % 5];
  RandomCall<T> call(seed, shape, {}, layout);
  const auto run = [&](const auto& bias) {
    posenc::detail::attend_to_tensors<Tier, T, T>(
        posenc::detail::ErasedDevice(posenc::detail::CallingThread()), call.c.q.view(),
        call.c.k.view(), call.c.v.view(), call.c.out.view(), call.options,
        posenc::detail::bias_for_tensors<Tier, T>(bias), call.memory, {});
  };
  if (call.bias) {
    run(*call.bias);
  } else {
    run(posenc::NoBias());
  }
  INFO(Tier::name << ", seed " << seed << ": " << shape.heads << " heads over " << shape.kv_heads
                  << ", " << shape.queries << " queries, " << shape.keys << " keys, dims "
                  << shape.dim << " and " << shape.value_dim << ", " << layout.name);
  CHECK(worst_error(call.c, call.rules(), call.roundings, call.lse.view()) <= 1);
  CHECK(call.c.out.surroundings_kept());
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("attention: equals the reference on every tier", "[attention][tiers]",
                        OnTiers) {
  using T = typename TestType::Real;
  support::Random random(5);
  for (std::uint64_t seed = 1; seed <= support::sampled(150); ++seed) {
    check<typename TestType::Tier, T>(seed, small_shape(random));
  }
  for (std::uint64_t seed = 1001; seed <= 1000 + support::sampled(60); ++seed) {
    check<typename TestType::Tier, T>(seed, edge_shape(random));
  }
  for (std::uint64_t seed = 2001; seed <= 2000 + support::sampled(30); ++seed) {
    check<typename TestType::Tier, T>(seed, many_heads_shape(random));
  }
}

}  // namespace attention_tiers_test
