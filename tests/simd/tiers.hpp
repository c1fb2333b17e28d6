// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/simd/pack.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/// Helpers of the tests of packs and kernels: lists of the allowed tiers, and numbers.
namespace tiers {

using posenc::Index;
namespace tier = posenc::tier;

/// A tier with a type, for lists of test types.
template <class T, class TheTier>
struct On {
  using Real = T;
  using Tier = TheTier;
  using P = posenc::Pack<std::conditional_t<std::is_floating_point_v<T>, T, float>, TheTier>;
};

template <class... Lists>
using Joined = decltype(std::tuple_cat(std::declval<Lists>()...));

template <template <class> class TypesOn, class... Tiers>
Joined<std::conditional_t<tier::allowed<Tiers>, TypesOn<Tiers>, std::tuple<>>...> on_allowed(
    tier::List<Tiers...>);
/// The concatenation of the tuples TypesOn<Tier> of all allowed tiers.
template <template <class> class TypesOn>
using OnAll = decltype(on_allowed<TypesOn>(tier::All()));

template <class Tier>
using Itself = std::tuple<Tier>;
using All = OnAll<Itself>;
template <class T>
struct With {
  template <class Tier>
  using Types = std::tuple<On<T, Tier>>;
};
template <class T>
using AllWith = OnAll<With<T>::template Types>;
using FloatPacks = AllWith<float>;
using DoublePacks = AllWith<double>;
using Packs = Joined<FloatPacks, DoublePacks>;

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
Bits<T> bits(T x) {
  return std::bit_cast<Bits<T>>(x);
}

/// True if a and b have the same bits or are both NaN.
template <class T>
bool same(T a, T b) {
  return bits(a) == bits(b) || (std::isnan(a) && std::isnan(b));
}

template <class P>
auto lanes_of(P a) {
  using T = decltype(sum(a));
  std::vector<T> lanes(static_cast<std::size_t>(P::width));
  a.store(lanes.data());
  return lanes;
}

/// Returns op(x) of all elements, pack by pack.
template <class P, class T, class Op>
std::vector<T> each(const std::vector<T>& x, const Op& op) {
  constexpr auto width = static_cast<std::size_t>(P::width);
  std::vector<T> values(x.size());
  for (std::size_t at = 0; at < x.size(); at += width) {
    const auto count = static_cast<Index>((std::min)(width, x.size() - at));
    op(P::load_partial(x.data() + at, count)).store_partial(values.data() + at, count);
  }
  return values;
}

/// Returns the number of elements that differ in bits and are not both NaN.
template <class T>
std::size_t differing(const std::vector<T>& a, const std::vector<T>& b) {
  REQUIRE(a.size() == b.size());
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += same(a[i], b[i]) ? 0u : 1u;
  return count;
}

/// Returns |value - truth| in ulp of the truth, or of the smallest denormal if the truth is
/// smaller.
template <class T>
double ulps(T value, long double truth) {
  int exponent = 0;
  std::frexp(truth, &exponent);
  exponent = (std::max)(exponent, std::numeric_limits<T>::min_exponent);
  const long double ulp = std::ldexp(1.0L, exponent - std::numeric_limits<T>::digits);
  return static_cast<double>(std::abs(static_cast<long double>(value) - truth) / ulp);
}

/// Returns numbers of every kind: zeros, denormals, infinities, NaN with payloads, and random bits.
template <class T>
std::vector<T> numbers(std::uint64_t seed, std::size_t random = 200) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> all{0,
                     1,
                     2,
                     3,
                     T{0.5},
                     T{1.5},
                     1000,
                     1e9,
                     T{8},
                     T{1} / 10,
                     Limits::infinity(),
                     Limits::max(),
                     Limits::min(),
                     Limits::min() / 2,
                     Limits::denorm_min(),
                     Limits::epsilon(),
                     Limits::quiet_NaN(),
                     std::bit_cast<T>(bits(Limits::quiet_NaN()) + 5)};
  support::Random source(seed);
  for (std::size_t i = 0; i < random; ++i) {
    all.push_back(static_cast<T>(source.normal()));
    const auto half =
        static_cast<std::uint64_t>(source.integer(0, std::numeric_limits<std::int64_t>::max() - 1));
    all.push_back(std::bit_cast<T>(static_cast<Bits<T>>(half * 2 + 1)));
  }
  const std::size_t count = all.size();
  for (std::size_t i = 0; i < count; ++i) all.push_back(-all[i]);
  return all;
}

}  // namespace tiers
