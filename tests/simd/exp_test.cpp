// SPDX-License-Identifier: MIT
#include "support/worse.hpp"
#include "tiers.hpp"
#include <posenc/simd/exp.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

using posenc::Index;

namespace {

template <class P, class T>
std::vector<T> exp_of(const std::vector<T>& x) {
  constexpr auto width = static_cast<std::size_t>(P::width);
  std::vector<T> values(x.size());
  for (std::size_t at = 0; at < x.size(); at += width) {
    const auto count = static_cast<Index>((std::min)(width, x.size() - at));
    exp(P::load_partial(x.data() + at, count)).store_partial(values.data() + at, count);
  }
  return values;
}

/// Where e^x is normal, a multiple of the least denormal, and beyond both ends.
template <class T>
struct Ends;
template <>
struct Ends<float> {
  static constexpr float normal = -87.33654f, zero = -104.0f, largest = 88.72283f;
};
template <>
struct Ends<double> {
  static constexpr double normal = -708.39641853226408, zero = -745.2, largest = 709.782712893384;
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
  // Next to odd multiples of ln(2) / 2, where the split has to decide.
  for (int n = -149; n < 127; ++n) {
    const auto half = static_cast<T>((n + 0.5) * std::log(2.0));
    for (const T end : {-std::numeric_limits<T>::max(), std::numeric_limits<T>::max()}) {
      x.push_back(std::nextafter(half, end));
    }
    x.push_back(half);
  }
  return x;
}

/// |value - e^x| in units of the last place of the true value, of the least denormal below them.
template <class T>
double error_in_ulp(T value, T x) {
  const long double truth = std::exp(static_cast<long double>(x));
  int exponent = 0;
  std::frexp(truth, &exponent);
  exponent = (std::max)(exponent, std::numeric_limits<T>::min_exponent);
  const long double ulp = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(static_cast<long double>(value) - truth) / ulp);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("exp on every tier: within 1.2 ulp", "[simd][exp]", tiers::Packs) {
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  const auto x = arguments<T>();
  const auto values = exp_of<typename TestType::P>(x);
  double normal = 0, denormal = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    double& worst = x[i] >= Ends<T>::normal ? normal : denormal;
    worst = support::worse(worst, error_in_ulp(values[i], x[i]));
  }
  CHECK(normal <= 1.2);
  // Rounded to the normal number's place, and again to a coarser one.
  CHECK(denormal <= 1.2);
}

TEMPLATE_LIST_TEST_CASE("exp on every tier: the same bits", "[simd][exp]", tiers::Packs) {
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  const auto x = arguments<T>();
  const auto values = exp_of<typename TestType::P>(x);
  const auto expected = exp_of<posenc::Pack<T, posenc::tier::Scalar>>(x);
  int different = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    different += tiers::bits(values[i]) == tiers::bits(expected[i]) ? 0 : 1;
  }
  CHECK(different == 0);
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
