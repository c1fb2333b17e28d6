// SPDX-License-Identifier: MIT
// Loads, stores and lane orders of packs.
#include "support/guarded.hpp"
#include "tiers.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace pack_lanes_test {

using posenc::Index;

namespace {

/// Returns first, first + step, ....
template <class P, class T>
P counting(T first, T step = 1) {
  T lanes[P::width];
  for (Index i = 0; i < P::width; ++i) lanes[i] = first + step * static_cast<T>(i);
  return P::load(lanes);
}

template <class P, class T>
bool counts(P a, T first, T step = 1) {
  const auto lanes = tiers::lanes_of(a);
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (lanes[i] != first + step * static_cast<T>(i)) return false;
  }
  return true;
}

template <class T>
void count_up(T* p, Index count) {
  std::iota(p, p + count, T{1});
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("packs: every lane can be written and read", "[simd][pack]", tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  for (const T x : tiers::numbers<T>(2, 10)) {
    for (const T lane : tiers::lanes_of(P::broadcast(x)))
      CHECK(tiers::bits(lane) == tiers::bits(x));
  }
  for (const T lane : tiers::lanes_of(P::zero())) CHECK(tiers::bits(lane) == 0);
}

TEMPLATE_LIST_TEST_CASE("packs: load and store touch their width, at any address", "[simd][pack]",
                        tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  support::Guarded<T> from(4 * P::width), to(4 * P::width);
  for (const bool front : {true, false}) {
    for (Index shift = 0; shift <= 2 * P::width; ++shift) {
      const Index away = front ? shift : -shift;
      T* source = from.at(front, P::width) + away;
      T* target = to.at(front, P::width) + away;
      count_up(source, P::width);
      to.clear();
      P::load(source).store(target);
      CHECK(counts(P::load(target), T{1}));
      CHECK(to.kept_around(target, P::width));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("packs: partial loads give zeros, partial stores leave the rest",
                        "[simd][pack]", tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  support::Guarded<T> from(P::width), to(P::width);
  for (const bool front : {true, false}) {
    for (Index n = 0; n <= P::width; ++n) {
      CAPTURE(front, n);
      from.clear();
      T* source = from.at(front, n);
      count_up(source, n);
      const auto lanes = tiers::lanes_of(P::load_partial(source, n));
      for (Index i = 0; i < P::width; ++i) {
        const T want = i < n ? static_cast<T>(i + 1) : T{0};
        CHECK(tiers::bits(lanes[static_cast<std::size_t>(i)]) == tiers::bits(want));
      }
      to.clear();
      T* target = to.at(front, n);
      counting<P>(T{1}).store_partial(target, n);
      for (Index i = 0; i < n; ++i) CHECK(target[i] == static_cast<T>(i + 1));
      CHECK(to.kept_around(target, n));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("packs: pairs are split, joined and swapped", "[simd][pack]",
                        tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  constexpr T width = static_cast<T>(P::width);
  const P low = counting<P>(T{0}), high = counting<P>(width);
  P even, odd;
  split_pairs(low, high, even, odd);
  CHECK(counts(natural_order(even), T{0}, T{2}));
  CHECK(counts(natural_order(odd), T{1}, T{2}));
  P first, second;
  join_pairs(even, odd, first, second);
  CHECK(counts(first, T{0}));
  CHECK(counts(second, width));
  CHECK(counts(natural_order(pair_order(low)), T{0}));
  CHECK(counts(pair_order(natural_order(low)), T{0}));
  join_pairs(pair_order(counting<P>(T{0}, T{2})), pair_order(counting<P>(T{1}, T{2})), first,
             second);
  CHECK(counts(first, T{0}));
  CHECK(counts(second, width));
  // Outputs may be the inputs.
  split_pairs(first, second, first, second);
  CHECK(counts(natural_order(first), T{0}, T{2}));
  CHECK(counts(natural_order(second), T{1}, T{2}));
  join_pairs(first, second, first, second);
  CHECK(counts(first, T{0}));
  CHECK(counts(second, width));
  if constexpr (P::width > 1) {
    T values[P::width / 2];
    for (posenc::Index k = 0; k < P::width / 2; ++k) values[k] = static_cast<T>(k);
    T lanes[P::width];
    P::load_duplicated(values).store(lanes);
    for (posenc::Index k = 0; k < P::width; ++k) CHECK(lanes[k] == values[k / 2]);
    const auto swapped = tiers::lanes_of(swap_pairs(low));
    for (std::size_t i = 0; i < swapped.size(); ++i) CHECK(swapped[i] == static_cast<T>(i ^ 1u));
  }
}

TEMPLATE_LIST_TEST_CASE("packs: lanes from some place on in two packs", "[simd][pack]",
                        tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  const P a = counting<P>(T{0}), b = counting<P>(static_cast<T>(P::width));
  if constexpr (requires { combine_shift(Index{}, a, b); }) {
    for (Index n = 0; n <= P::width; ++n) CHECK(counts(combine_shift(n, a, b), static_cast<T>(n)));
  }
}

TEMPLATE_LIST_TEST_CASE("packs: two are interleaved over the whole width", "[simd][pack]",
                        tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  constexpr T width = static_cast<T>(P::width);
  P a = counting<P>(T{0}, T{2}), b = counting<P>(T{1}, T{2}), low, high;
  interleave(a, b, low, high);
  CHECK(counts(low, T{0}));
  CHECK(counts(high, width));
  // Outputs may be the inputs.
  interleave(a, b, a, b);
  CHECK(counts(a, T{0}));
  CHECK(counts(b, width));
}

TEMPLATE_LIST_TEST_CASE("packs: sum and maximum see every lane", "[simd][pack]", tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  constexpr T inf = std::numeric_limits<T>::infinity();
  constexpr auto width = static_cast<std::size_t>(P::width);
  CHECK(maximum(P::broadcast(-inf)) == -inf);
  for (std::size_t i = 0; i < width; ++i) {
    T one[width], high[width];
    std::fill_n(one, width, T{0});
    for (std::size_t k = 0; k < width; ++k) high[k] = -static_cast<T>(k + 2);
    one[i] = high[i] = static_cast<T>(1u << i);
    CHECK(sum(P::load(one)) == one[i]);
    CHECK(maximum(P::load(high)) == one[i]);
    high[i] = T{-0.5};
    CHECK(maximum(P::load(high)) == T{-0.5});
    std::fill_n(high, width, -inf);
    high[i] = -5;
    CHECK(maximum(P::load(high)) == -5);
  }
  CHECK(sum(counting<P>(T{1})) == static_cast<T>(width * (width + 1) / 2));
}

TEMPLATE_LIST_TEST_CASE("packs: doubles are rounded once to floats", "[simd][pack]",
                        tiers::DoublePacks) {
  using P = typename TestType::P;
  INFO(TestType::Tier::name);
  auto all = tiers::numbers<double>(3, 100);
  support::Random random(4);
  for (int i = 0; i < 500; ++i) {  // ties, and numbers at the ends of float's range
    const auto f = static_cast<float>(random.normal() * std::exp2(random.uniform(-150, 128)));
    const double next = static_cast<double>(std::nextafter(f, 0.0f));
    all.push_back((static_cast<double>(f) + next) / 2);
    all.push_back(std::nextafter(all.back(), 0.0));
  }
  support::Guarded<float> to(P::width);
  for (const bool front : {true, false}) {
    for (Index n = 0; n <= P::width; ++n) {
      bool right = true;
      for (std::size_t at = 0; at + static_cast<std::size_t>(P::width) <= all.size(); ++at) {
        float* target = to.at(front, n);
        const P value = P::load(all.data() + at);
        value.store_rounded_partial(target, n);
        if (n == P::width) {
          float whole[P::width];
          value.store_rounded(whole);
          right = right && std::memcmp(whole, target, sizeof(whole)) == 0;
        }
        for (Index i = 0; i < n; ++i) {
          const double x = all[at + static_cast<std::size_t>(i)];
          right = right && tiers::same(target[i], static_cast<float>(x));
        }
      }
      CAPTURE(front, n);
      CHECK(right);
      CHECK(to.kept_around(to.at(front, n), n));
      to.clear();
    }
  }
}

}  // namespace pack_lanes_test
