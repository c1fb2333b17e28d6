// SPDX-License-Identifier: MIT
// Tests exp and exp_nonpositive on every tier: error, bits, special values.
#include "support/worse.hpp"
#include "tiers.hpp"
#include <posenc/simd/exp.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

namespace exp_test {

namespace {

template <class P, class T>
std::vector<T> exp_of(const std::vector<T>& x) {
  return tiers::each<P>(x, [](P a) { return exp(a); });
}

template <class P, class T>
std::vector<T> exp_nonpositive_of(const std::vector<T>& x) {
  return tiers::each<P>(x, [](P a) { return exp_nonpositive(a); });
}

/// Bounds of x: e^x is normal from `normal` on, 0 at `zero`, and finite up to `largest`.
template <class T>
struct Ends;
template <>
struct Ends<float> {
  static constexpr float normal = -87.33654f, zero = -104.0f, largest = 88.72283f;
  static constexpr float nonpositive =
      -68.96f;  ///< smallest x for which exp_nonpositive() is not 0
};
template <>
struct Ends<double> {
  static constexpr double normal = -708.39641853226408, zero = -745.2, largest = 709.782712893384;
  static constexpr double nonpositive = -623.4;
};

template <class T>
std::vector<T> arguments() {
  std::vector<T> x;
  const double low = static_cast<double>(Ends<T>::zero),
               high = static_cast<double>(Ends<T>::largest);
  for (double at = low; at <= high; at += (high - low) / 60000) x.push_back(static_cast<T>(at));
  support::Random random(61);
  for (int i = 0; i < 20000; ++i) {
    x.push_back(static_cast<T>(random.uniform(-1, 1)));
    x.push_back(static_cast<T>(random.normal() * std::exp2(random.uniform(-60, 0))));
  }
  // Neighbours of odd multiples of ln(2) / 2, at which the split changes n.
  for (int n = -149; n < 127; ++n) {
    const auto half = static_cast<T>((n + 0.5) * std::log(2.0));
    for (const T end : {-std::numeric_limits<T>::max(), std::numeric_limits<T>::max()}) {
      x.push_back(std::nextafter(half, end));
    }
    x.push_back(half);
  }
  return x;
}

template <class T>
double error_in_ulp(T value, T x) {
  return tiers::ulps(value, std::exp(static_cast<long double>(x)));
}

template <class T>
std::vector<T> nonpositive_arguments() {
  auto x = arguments<T>();
  for (T& value : x) value = -std::abs(value);
  return x;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("exp on every tier: within the promised ulp", "[simd][exp]", tiers::Packs) {
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  const auto x = arguments<T>();
  const auto values = exp_of<typename TestType::P>(x);
  double normal = 0, denormal = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double& worst = x[i] >= Ends<T>::normal ? normal : denormal;
    worst = support::worse(worst, error_in_ulp(values[i], x[i]));
  }
  const double promised = std::is_same_v<T, float> ? 1.2 : 1.25;
  CHECK(normal <= promised);
  // Denormal results are rounded twice: like a normal number, and then to a coarser ulp.
  CHECK(denormal <= promised);
}

TEMPLATE_LIST_TEST_CASE("exp on every tier: the same bits", "[simd][exp]", tiers::Packs) {
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  const auto x = arguments<T>();
  const auto values = exp_of<typename TestType::P>(x);
  const auto expected = exp_of<posenc::Pack<T, posenc::tier::Scalar>>(x);
  CHECK(tiers::differing(values, expected) == 0);
}

TEMPLATE_LIST_TEST_CASE("exp on every tier: special values", "[simd][exp]", tiers::Packs) {
  using T = typename TestType::Real;
  using Limits = std::numeric_limits<T>;
  INFO(TestType::Tier::name);
  const auto exp_one = [](T x) { return exp_of<typename TestType::P>(std::vector<T>{x})[0]; };
  CHECK(exp_one(0) == 1);
  CHECK(exp_one(-T{0}) == 1);
  CHECK(exp_one(Limits::denorm_min()) == 1);
  CHECK(tiers::bits(exp_one(-Limits::infinity())) == 0);
  CHECK(tiers::bits(exp_one(-Limits::max())) == 0);
  CHECK(exp_one(Limits::infinity()) == Limits::infinity());
  CHECK(exp_one(Limits::max()) == Limits::infinity());
  CHECK(std::isnan(exp_one(Limits::quiet_NaN())));
  CHECK(std::isnan(exp_one(-Limits::quiet_NaN())));
  CHECK(std::isfinite(exp_one(Ends<T>::largest)));
  CHECK(exp_one(std::nextafter(Ends<T>::largest, Limits::max()) + Ends<T>::largest / 100000) ==
        Limits::infinity());
  CHECK(exp_one(Ends<T>::zero) == 0);
  CHECK(exp_one(Ends<T>::normal) > 0);
}

TEMPLATE_LIST_TEST_CASE("exp_nonpositive on every tier: within 1.1 ulp, 1.4 without fma",
                        "[simd][exp]", tiers::Packs) {
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  const auto x = nonpositive_arguments<T>();
  const auto values = exp_nonpositive_of<typename TestType::P>(x);
  double worst = 0;
  bool rest_is_zero = true;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] >= Ends<T>::nonpositive) {
      worst = support::worse(worst, error_in_ulp(values[i], x[i]));
    } else if (x[i] < Ends<T>::nonpositive - T{0.25}) {
      rest_is_zero = rest_is_zero && values[i] == 0;
    }
  }
  CHECK(worst <= (POSENC_HAS_FMA ? 1.1 : 1.4));
  CHECK(rest_is_zero);
}

TEMPLATE_LIST_TEST_CASE("exp_nonpositive on every tier: the same bits", "[simd][exp]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  auto x = nonpositive_arguments<T>();
  for (const T value : tiers::numbers<T>(62)) x.push_back(-std::abs(value));
  CHECK(tiers::differing(exp_nonpositive_of<typename TestType::P>(x),
                         exp_nonpositive_of<posenc::Pack<T, posenc::tier::Scalar>>(x)) == 0);
}

TEMPLATE_LIST_TEST_CASE("exp_nonpositive on every tier: special values", "[simd][exp]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  using Limits = std::numeric_limits<T>;
  INFO(TestType::Tier::name);
  const auto exp_one = [](T x) {
    return exp_nonpositive_of<typename TestType::P>(std::vector<T>{x})[0];
  };
  CHECK(exp_one(0) == 1);
  CHECK(exp_one(-T{0}) == 1);
  CHECK(exp_one(-Limits::denorm_min()) == 1);
  CHECK(tiers::bits(exp_one(-Limits::infinity())) == 0);
  CHECK(tiers::bits(exp_one(-Limits::max())) == 0);
  CHECK(tiers::bits(exp_one(Ends<T>::nonpositive - T{0.5})) == 0);
  CHECK(exp_one(Ends<T>::nonpositive) > 0);
  CHECK(error_in_ulp(exp_one(T{1} / 3), T{1} / 3) <= 1.4);
  CHECK(error_in_ulp(exp_one(88), T{88}) <= 1.4);
  // NaN with any payload.
  const auto quiet = tiers::bits(Limits::quiet_NaN());
  for (tiers::Bits<T> payload = 1; payload < 0x1000; ++payload) {
    const T nan = std::bit_cast<T>(static_cast<tiers::Bits<T>>(quiet + payload));
    if (!std::isnan(exp_one(nan)) || !std::isnan(exp_one(-nan))) FAIL("payload " << payload);
  }
}

}  // namespace exp_test
