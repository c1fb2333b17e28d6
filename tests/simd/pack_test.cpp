// SPDX-License-Identifier: MIT
// Arithmetic of packs, lane by lane, against the scalar operators.
#include "tiers.hpp"

#include <algorithm>
#include <cmath>

namespace pack_test {

using posenc::Index;

namespace {

/// True if op(a, b, c) of packs equals expected(a, b, c) of scalars in every lane, for many
/// numbers. If one is NaN the other must be, with the same bits if `exact_nan`.
template <class P, class T, class Op, class Expected>
bool agrees(const Op& op, const Expected& expected, bool exact_nan = false) {
  const auto a = tiers::numbers<T>(1);
  auto b = a, c = a;
  const auto width = static_cast<std::size_t>(P::width);
  // Each shift combines every number with other numbers, in every lane.
  for (std::size_t shift = 0; shift < 41; ++shift) {
    for (std::size_t at = 0; at + width <= a.size(); at += 1 + shift % 3) {
      const auto got = tiers::lanes_of(
          op(P::load(a.data() + at), P::load(b.data() + at), P::load(c.data() + at)));
      for (std::size_t i = 0; i < width; ++i) {
        const T want = expected(a[at + i], b[at + i], c[at + i]);
        const bool fine =
            exact_nan ? tiers::bits(got[i]) == tiers::bits(want) : tiers::same(got[i], want);
        if (!fine) {
          UNSCOPED_INFO(a[at + i] << ", " << b[at + i] << ", " << c[at + i] << ": " << got[i]
                                  << " is not " << want);
          return false;
        }
      }
    }
    std::rotate(b.begin(), b.begin() + 7, b.end());
    std::rotate(c.begin(), c.begin() + 13, c.end());
  }
  return true;
}

template <class T>
T fused_if_hardware_does(T a, T b, T c) {
#if POSENC_HAS_FMA
  return std::fma(a, b, c);
#else
  const volatile T product = a * b;
  return product + c;
#endif
}

template <class P, class T, int N>
bool shifts_left() {
  return agrees<P, T>([](P a, P, P) { return shift_left<N>(a); },
                      [](T a, T, T) { return std::bit_cast<T>(tiers::bits(a) << N); }, true);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("packs: arithmetic is rounded once, as the scalar operators' is",
                        "[simd][pack]", tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  CHECK(agrees<P, T>([](P a, P b, P) { return a + b; }, [](T a, T b, T) { return a + b; }));
  CHECK(agrees<P, T>([](P a, P b, P) { return a - b; }, [](T a, T b, T) { return a - b; }));
  CHECK(agrees<P, T>([](P a, P b, P) { return a * b; }, [](T a, T b, T) { return a * b; }));
  CHECK(agrees<P, T>([](P a, P b, P) { return a / b; }, [](T a, T b, T) { return a / b; }));
  CHECK(agrees<P, T>([](P a, P, P) { return -a; }, [](T a, T, T) { return -a; }));
}

TEMPLATE_LIST_TEST_CASE("packs: mul_add and mul_sub are fused where the hardware fuses",
                        "[simd][pack]", tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  CHECK(agrees<P, T>([](P a, P b, P c) { return mul_add(a, b, c); },
                     [](T a, T b, T c) { return fused_if_hardware_does(a, b, c); }));
  CHECK(agrees<P, T>([](P a, P b, P c) { return mul_sub(a, b, c); },
                     [](T a, T b, T c) { return fused_if_hardware_does(a, b, -c); }));
  // volatile: a compiler that knows the numbers may compute the result itself, fused.
  const volatile T epsilon = std::numeric_limits<T>::epsilon();
  const T e = epsilon;
  const P square = P::broadcast(1 + e);
  const T rest = tiers::lanes_of(mul_sub(square, square, P::broadcast(1 + 2 * e)))[0];
  CHECK(rest == (POSENC_HAS_FMA ? e * e : 0));
}

TEMPLATE_LIST_TEST_CASE("packs: max and min give the second where a lane of either is NaN",
                        "[simd][pack]", tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  CHECK(agrees<P, T>([](P a, P b, P) { return larger(a, b); },
                     [](T a, T b, T) { return a > b ? a : b; }, true));
  CHECK(agrees<P, T>([](P a, P b, P) { return smaller(a, b); },
                     [](T a, T b, T) { return a < b ? a : b; }, true));
}

TEMPLATE_LIST_TEST_CASE("packs: bits are treated as unsigned integers", "[simd][pack]",
                        tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  using B = tiers::Bits<T>;
  INFO(TestType::Tier::name);
  const auto from = [](B b) { return std::bit_cast<T>(b); };
  CHECK(agrees<P, T>([](P a, P b, P) { return a & b; },
                     [&](T a, T b, T) { return from(tiers::bits(a) & tiers::bits(b)); }, true));
  CHECK(agrees<P, T>([](P a, P b, P) { return a ^ b; },
                     [&](T a, T b, T) { return from(tiers::bits(a) ^ tiers::bits(b)); }, true));
  CHECK(agrees<P, T>([](P a, P b, P) { return add_bits(a, b); },
                     [&](T a, T b, T) { return from(tiers::bits(a) + tiers::bits(b)); }, true));
  CHECK(shifts_left<P, T, 0>());
  CHECK(shifts_left<P, T, 1>());
  CHECK(shifts_left<P, T, 13>());
  CHECK(shifts_left<P, T, 23>());
  CHECK(shifts_left<P, T, 31>());
  if constexpr (sizeof(T) == 8) {
    CHECK(shifts_left<P, T, 52>());
    CHECK(shifts_left<P, T, 62>());
    CHECK(shifts_left<P, T, 63>());
  }
}

TEMPLATE_LIST_TEST_CASE("packs: select_by_sign looks at the sign bit alone", "[simd][pack]",
                        tiers::Packs) {
  using P = typename TestType::P;
  using T = typename TestType::Real;
  INFO(TestType::Tier::name);
  CHECK(agrees<P, T>([](P s, P a, P b) { return select_by_sign(s, a, b); },
                     [](T s, T a, T b) { return std::signbit(s) ? a : b; }, true));
}

}  // namespace pack_test
