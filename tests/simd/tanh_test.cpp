// SPDX-License-Identifier: MIT
// Tests tanh on every tier: error, bits, special values.
#include "support/worse.hpp"
#include "tiers.hpp"
#include <posenc/simd/tanh.hpp>

#include <cmath>
#include <limits>

namespace tanh_test {

namespace {

template <class P, class T>
std::vector<T> tanh_of(const std::vector<T>& x) {
  return tiers::each<P>(x, [](P a) { return tanh(a); });
}

/// Returns arguments of every exponent, and more of them where tanh bends.
template <class T>
std::vector<T> arguments() {
  std::vector<T> x;
  support::Random random(63);
  for (int exponent = -60; exponent <= 6; ++exponent) {
    for (int i = 0; i < 600; ++i) {
      x.push_back(static_cast<T>(std::exp2(exponent + random.uniform(0, 1))));
    }
  }
  for (double at = 0; at < 20; at += 1.0 / 4096) x.push_back(static_cast<T>(at));
  return x;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("tanh on every tier: within 2.6 ulp, 2.7 without fma", "[simd][tanh]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  const auto x = arguments<T>();
  const auto values = tanh_of<typename TestType::P>(x);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const long double truth = std::tanh(static_cast<long double>(x[i]));
    worst = support::worse(worst, tiers::ulps(values[i], truth));
  }
  CHECK(worst <= (POSENC_HAS_FMA ? 2.6 : 2.7));
}

TEMPLATE_LIST_TEST_CASE("tanh on every tier: the same bits, and odd", "[simd][tanh]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  using P = typename TestType::P;
  INFO(TestType::Tier::name);
  auto x = arguments<T>();
  for (const T value : tiers::numbers<T>(64)) x.push_back(value);
  const auto values = tanh_of<P>(x);
  CHECK(tiers::differing(values, tanh_of<posenc::Pack<T, posenc::tier::Scalar>>(x)) == 0);
  auto negative = x;
  for (T& value : negative) value = -value;
  auto mirrored = tanh_of<P>(negative);
  for (T& value : mirrored) value = -value;
  CHECK(tiers::differing(values, mirrored) == 0);
}

TEMPLATE_LIST_TEST_CASE("tanh on every tier: special values", "[simd][tanh]", tiers::Packs) {
  using T = typename TestType::Real;
  using Limits = std::numeric_limits<T>;
  INFO(TestType::Tier::name);
  const auto tanh_one = [](T x) { return tanh_of<typename TestType::P>(std::vector<T>{x})[0]; };
  for (const T sign : {T{1}, T{-1}}) {
    CHECK(tiers::bits(tanh_one(sign * 0)) == tiers::bits(sign * 0));
    for (const T tiny : {Limits::denorm_min(), Limits::min(), Limits::min() / 3}) {
      CHECK(tanh_one(sign * tiny) == sign * tiny);
    }
    for (const T large : {T{20}, T{21}, T{1000}, Limits::max(), Limits::infinity()}) {
      CHECK(tanh_one(sign * large) == sign);
    }
    CHECK(std::isnan(tanh_one(sign * Limits::quiet_NaN())));
    CHECK(std::isnan(tanh_one(sign * std::bit_cast<T>(tiers::bits(Limits::quiet_NaN()) + 77))));
  }
}

}  // namespace tanh_test
