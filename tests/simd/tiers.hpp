// SPDX-License-Identifier: MIT
#pragma once

#include "support/catch.hpp"
#include "support/compare.hpp"
#include <posenc/simd/pack.hpp>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/// What the tests of the packs and kernels share: the tiers that this unit's flags allow, and numbers.
namespace tiers {

using posenc::Index;
namespace tier = posenc::tier;

/// A tier with a type, for lists of test types.
template <class T, class TheTier>
struct On {
  using Real = T;
  using Tier = TheTier;
  using P = posenc::Pack<T, TheTier>;
};

template <class... Lists>
using Joined = decltype(std::tuple_cat(std::declval<Lists>()...));
template <class Tier, class... Types>
using WhereAllowed = std::conditional_t<tier::allowed<Tier>, std::tuple<Types...>, std::tuple<>>;

template <class... Tiers>
using AllOf = Joined<WhereAllowed<Tiers, Tiers>...>;
template <class T, class... Tiers>
using AllOn = Joined<WhereAllowed<Tiers, On<T, Tiers>>...>;

using All = AllOf<tier::Scalar, tier::Sse2, tier::Avx2, tier::Avx512, tier::Neon>;
template <class T>
using AllWith = AllOn<T, tier::Scalar, tier::Sse2, tier::Avx2, tier::Avx512, tier::Neon>;
using FloatPacks = AllWith<float>;
using DoublePacks = AllWith<double>;
using Packs = Joined<FloatPacks, DoublePacks>;

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>;

template <class T>
Bits<T> bits(T x) {
  return std::bit_cast<Bits<T>>(x);
}

/// The same bits, or two NaN.
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

/// Numbers of every kind: zeros, denormals, infinities, NaN with payloads, and random bits.
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
    all.push_back(std::bit_cast<T>(static_cast<Bits<T>>(
        source.integer(0, std::numeric_limits<std::int64_t>::max() - 1) * 2 + 1)));
  }
  const std::size_t count = all.size();
  for (std::size_t i = 0; i < count; ++i) all.push_back(-all[i]);
  return all;
}

}  // namespace tiers
