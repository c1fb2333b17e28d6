// SPDX-License-Identifier: MIT
// Products of bfloat16 pairs, on tiers that have them.
#include "tiers.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace pack_pair_products_test {

using posenc::Index;

// These functions are used only if a tier has products of pairs.
namespace {

/// Returns the float whose upper 16 bits are `bits`.
[[maybe_unused]] float number(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
[[maybe_unused]] std::uint16_t front(float x) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16);
}

float flushed(float x) {
  return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}

/// Returns a b + sum as the contract of add_pair_products() defines it.
[[maybe_unused]] float add_product(float sum, float a, float b) {
  const float x = flushed(a), y = flushed(b), z = flushed(sum);
  // This double is exact if the sum is about as small as the smallest normal float. The sum is
  // compared with it after rounding to 24 bits; fma keeps fewer bits of a denormal and rounds some
  // up to it.
  const double exact = static_cast<double>(x) * static_cast<double>(y) + static_cast<double>(z);
  constexpr double flush_below = 0x1p-126 - 0x1p-151;
  if (exact != 0 && std::abs(exact) < flush_below) {
    return std::copysign(0.0F, static_cast<float>(exact));
  }
  return std::fma(x, y, z);
}

template <class P>
inline constexpr bool has_pairs = requires(P p) {
  add_pair_products(p, p, p);
};

using Pair = std::array<std::uint16_t, 2>;

/// True if add_pair_products() follows its contract in every lane.
template <class P>
bool agrees(float sum, Pair a, Pair b) {
  std::array<Pair, static_cast<std::size_t>(P::width)> many;
  many.fill(a);
  const P got =
      add_pair_products(P::broadcast(sum), P::load_pairs(many.data()), P::broadcast_pair(b.data()));
  const float want =
      add_product(add_product(sum, number(a[1]), number(b[1])), number(a[0]), number(b[0]));
  for (const float lane : tiers::lanes_of(got)) {
    if (!tiers::same(lane, want)) return false;
  }
  return true;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("packs: pairs are multiplied and added second first", "[simd][pack]",
                        tiers::FloatPacks) {
  using P = typename TestType::P;
  if constexpr (has_pairs<P>) {
    support::Random random(1);
    for (const double range : {1.0, 8.0, 40.0, 120.0}) {
      bool right = true;
      for (int i = 0; i < 20'000; ++i) {
        const auto any = [&](double exponents) {
          return static_cast<float>(random.normal() * std::exp2(random.uniform(-1, 1) * exponents));
        };
        const Pair a{front(any(range)), front(any(range))}, b{front(any(range)), front(any(range))};
        float sum = any(range);
        // Sums that nearly cancel reveal every rounding.
        if (i % 3 == 0) sum = -number(a[1]) * number(b[1]) * (1 + std::ldexp(1.0F, -i % 24));
        right &= agrees<P>(sum, a, b);
      }
      INFO("exponents up to " << range);
      CHECK(right);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("packs: sums of pairs about the smallest normal number", "[simd][pack]",
                        tiers::FloatPacks) {
  using P = typename TestType::P;
  if constexpr (has_pairs<P>) {
    constexpr float min_normal = std::numeric_limits<float>::min();
    support::Random random(3);
    bool right = true;
    for (int below = 0; below <= 40; ++below) {
      for (int i = 0; i < 500; ++i) {
        // A product some bits below the sum, and a sum at or just above the smallest normal float.
        const auto of = [&](int exponent) {
          const double mantissa = i % 5 == 0 ? 1 : random.uniform(1, 2);
          const double sign = random.integer(0, 1) == 0 ? 1 : -1;
          return front(static_cast<float>(sign * std::ldexp(mantissa, exponent)));
        };
        const int exponent = static_cast<int>(random.integer(-100, -20));
        const Pair a{of(exponent), of(exponent)};
        const Pair b{of(-126 - below - exponent), of(-126 - below / 2 - exponent)};
        const float sum =
            i % 3 == 0 ? min_normal : min_normal * static_cast<float>(random.uniform(1, 3));
        right &= agrees<P>(sum, a, b) && agrees<P>(-sum, a, b) && agrees<P>(sum, {0, a[1]}, b);
      }
    }
    CHECK(right);
    CHECK(agrees<P>(min_normal, {0, front(-0x1p-76F)}, {0, front(0x1p-76F)}));  // 2^-126 - 2^-152
    CHECK(agrees<P>(min_normal, {0, front(-0x1p-76F)}, {0, front(0x1p-75F)}));  // 2^-126 - 2^-151
    CHECK(agrees<P>(min_normal, {0, front(-0x1p-75F)}, {0, front(0x1p-75F)}));  // 2^-126 - 2^-150
  }
}

TEMPLATE_LIST_TEST_CASE("packs: products of pairs take numbers of every kind", "[simd][pack]",
                        tiers::FloatPacks) {
  using P = typename TestType::P;
  if constexpr (has_pairs<P>) {
    std::vector<float> all = tiers::numbers<float>(2, 3);
    bool right = true;
    for (const float x : all) {
      for (const float y : all) {
        for (const float sum : {0.0F, -0.0F, 1.0F, x, -x}) {
          right &= agrees<P>(sum, {front(x), front(y)}, {front(y), front(1.0F)});
          right &= agrees<P>(sum, {front(1.0F), front(x)}, {front(x), front(y)});
        }
      }
    }
    CHECK(right);
  }
}

TEMPLATE_LIST_TEST_CASE("packs: pairs are loaded as they lie", "[simd][pack]", tiers::FloatPacks) {
  using P = typename TestType::P;
  if constexpr (has_pairs<P>) {
    std::array<Pair, static_cast<std::size_t>(P::width) + 1> pairs;
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      pairs[i] = {static_cast<std::uint16_t>(2 * i), static_cast<std::uint16_t>(2 * i + 1)};
    }
    const auto bits_of = [](Pair p) {
      return static_cast<std::uint32_t>(p[0]) | static_cast<std::uint32_t>(p[1]) << 16;
    };
    const auto loaded = tiers::lanes_of(P::load_pairs(pairs.data() + 1));
    for (std::size_t i = 0; i < loaded.size(); ++i) {
      CHECK(tiers::bits(loaded[i]) == bits_of(pairs[i + 1]));
    }
    for (const float lane : tiers::lanes_of(P::broadcast_pair(pairs.data() + 3))) {
      CHECK(tiers::bits(lane) == bits_of(pairs[3]));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("packs: rows are paired value by value", "[simd][pack]",
                        tiers::FloatPacks) {
  using P = typename TestType::P;
  if constexpr (has_pairs<P>) {
    constexpr auto width = static_cast<std::size_t>(P::width);
    std::array<std::uint16_t, 2 * width + 1> first, second;
    for (std::size_t i = 0; i < first.size(); ++i) {
      first[i] = front(static_cast<float>(i));
      second[i] = front(static_cast<float>(i + 64));
    }
    // Products with (1, 0) and (0, 1) show the numbers of each pair.
    const std::uint16_t one = front(1);
    const Pair of_first{one, 0}, of_second{0, one};
    const auto is_paired = [&](P pairs, std::size_t at) {
      const auto value = [&](const Pair& of) {
        return tiers::lanes_of(add_pair_products(P::zero(), pairs, P::broadcast_pair(of.data())));
      };
      const auto a = value(of_first), b = value(of_second);
      for (std::size_t i = 0; i < width; ++i) {
        if (a[i] != number(first[at + i]) || b[i] != number(second[at + i])) return false;
      }
      return true;
    };
    P a, b, low, high;
    P::load_row_pairs(first.data() + 1, second.data() + 1, a, b);
    order_row_pairs(a, b, low, high);
    CHECK(is_paired(low, 1));
    CHECK(is_paired(high, 1 + width));
    CHECK(is_paired(P::load_row_pairs(first.data() + 3, second.data() + 3), 3));
  }
}

TEMPLATE_LIST_TEST_CASE("packs: lanes are rounded and stored in swapped pairs", "[simd][pack]",
                        tiers::FloatPacks) {
  using P = typename TestType::P;
  if constexpr (has_pairs<P>) {
    constexpr auto width = static_cast<std::size_t>(P::width);
    support::Random random(4);
    for (int n = 0; n < 1000; ++n) {
      std::array<float, width> values;
      for (float& value : values) {
        value = static_cast<float>(random.normal() * std::exp2(random.uniform(-100, 100)));
        // Numbers between two of bfloat16 are rounded to the even one.
        if (n % 3 == 0) value = number(front(value)) * (1 + std::ldexp(1.0F, -8));
      }
      std::array<std::uint16_t, width> want, got;
      const P pack = P::load(values.data());
      pack.store_bfloat16(want.data());
      pack.store_swapped_bfloat16(got.data());
      for (std::size_t i = 0; i < width; ++i) REQUIRE(got[i ^ 1U] == want[i]);
    }
  }
}

}  // namespace pack_pair_products_test
