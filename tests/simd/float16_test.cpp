// SPDX-License-Identifier: MIT
// Conversions of half and bfloat16 against their definition: every value read, and floats of all
// kinds written.
#include "float16_case.hpp"
#include "support/guarded.hpp"
#include "support/user_float16.hpp"
#include <posenc/simd/detail/storage.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <tuple>

namespace float16_test {

using float16::Bfloat16;
using float16::Bfloat16Pairs;
using float16::Half;
using posenc::Index;

namespace {

template <class Test>
void for_each_conversion(const Test& test) {
  test(Half{});
  test(Bfloat16{});
  test(Bfloat16Pairs{});
}

/// Returns each value of the format, the ties between consecutive values, and the floats next to
/// all of these. Special floats and a stride through all bit patterns follow. The count is a
/// multiple of 64.
std::vector<float> sample(reference::Format16 format) {
  std::vector<float> all;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const double x = reference::decode(format, static_cast<std::uint16_t>(bits));
    const double next = reference::decode(format, static_cast<std::uint16_t>(bits + 1));
    for (const double y : {x, (x + next) / 2}) {
      const auto f = static_cast<float>(y);
      for (const float z : {f, std::nextafter(f, -INFINITY), std::nextafter(f, INFINITY)}) {
        all.push_back(z);
      }
    }
  }
  for (const float x : tiers::numbers<float>(11, 1000)) all.push_back(x);
  // NaN with payloads in the dropped and in the kept bits.
  for (int bit = 0; bit < 23; ++bit) {
    for (const std::uint32_t sign : {0u, 0x80000000u}) {
      all.push_back(std::bit_cast<float>(sign | 0x7f800000u | (1u << bit)));
      all.push_back(std::bit_cast<float>(sign | 0x7fc00000u | (1u << bit)));
    }
  }
  for (std::uint64_t bits = 0; bits < 0x100000000u; bits += 7919) {
    all.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
  }
  all.resize((all.size() + 63) / 64 * 64);
  return all;
}

/// Returns the floats in random order, so that any two kinds can be in adjacent lanes of a vector.
std::vector<float> shuffled(std::vector<float> floats) {
  support::Random random(12);
  for (std::size_t i = floats.size() - 1; i > 0; --i) {
    const auto other = static_cast<std::size_t>(random.integer(0, static_cast<std::int64_t>(i)));
    std::swap(floats[i], floats[other]);
  }
  return floats;
}

struct Sample {
  std::vector<float> floats;
  std::vector<std::uint16_t> bits;
};

template <class Conversion>
const std::vector<Sample>& samples() {
  static const std::vector<Sample> both = [] {
    std::vector<Sample> made;
    const auto in_order = sample(Conversion::format);
    made.push_back({in_order, float16::encoded(Conversion::format, in_order)});
    const auto mixed = shuffled(in_order);
    made.push_back({mixed, float16::encoded(Conversion::format, mixed)});
    return made;
  }();
  return both;
}

}  // namespace

TEST_CASE("Half and Bfloat16: agree with the reference and Eigen", "[simd][float16]") {
  const auto check = [](const auto& number, reference::Format16 format, const auto& from_bits) {
    using T = std::decay_t<decltype(number)>;
    bool read = true, written = true;
    for (unsigned bits = 0; bits < 0x10000; ++bits) {
      const auto b = static_cast<std::uint16_t>(bits);
      read = read && tiers::same(static_cast<double>(static_cast<float>(from_bits(b))),
                                 reference::decode(format, b));
    }
    for (const float x : samples<Half>()[0].floats) {
      const auto b = std::bit_cast<std::uint16_t>(static_cast<T>(x));
      written = written && (b == reference::encode(format, static_cast<double>(x)) ||
                            (std::isnan(x) && float16::is_nan(format, b)));
    }
    CHECK(read);
    CHECK(written);
  };
  check(Eigen::half(), reference::ieee_half,
        [](std::uint16_t b) { return std::bit_cast<Eigen::half>(b); });
  check(Eigen::bfloat16(), reference::bfloat16,
        [](std::uint16_t b) { return std::bit_cast<Eigen::bfloat16>(b); });
  check(posenc::Half(), reference::ieee_half,
        [](std::uint16_t b) { return posenc::Half::from_bits(b); });
  check(posenc::Bfloat16(), reference::bfloat16,
        [](std::uint16_t b) { return posenc::Bfloat16::from_bits(b); });
}

TEMPLATE_LIST_TEST_CASE("Half and Bfloat16: every value is read exactly", "[simd][float16]",
                        tiers::FloatPacks) {
  using P = typename TestType::P;
  INFO(TestType::Tier::name);
  for_each_conversion([](auto conversion) {
    using Conversion = decltype(conversion);
    constexpr auto step = static_cast<std::size_t>(Conversion::packs_per_call * P::width);
    bool right = true;
    for (std::size_t at = 0; at < 0x10000; at += step) {
      std::uint16_t bits[step];
      float got[step];
      for (std::size_t i = 0; i < step; ++i) bits[i] = static_cast<std::uint16_t>(at + i);
      Conversion::template widen<P>(bits, got);
      for (std::size_t i = 0; i < step; ++i) {
        const double want = reference::decode(Conversion::format, bits[i]);
        right = right && tiers::same(static_cast<double>(got[i]), want) &&
                std::signbit(got[i]) == ((bits[i] & 0x8000) != 0);
      }
    }
    CAPTURE(Conversion::format.digits, Conversion::packs_per_call);
    CHECK(right);
  });
}

TEMPLATE_LIST_TEST_CASE("Half and Bfloat16: written to nearest even, denormals and NaN kept",
                        "[simd][float16]", tiers::FloatPacks) {
  using P = typename TestType::P;
  INFO(TestType::Tier::name);
  for_each_conversion([](auto conversion) {
    using Conversion = decltype(conversion);
    CAPTURE(Conversion::format.digits, Conversion::packs_per_call);
    for (const Sample& s : samples<Conversion>()) {
      CHECK(float16::wrong_narrowing<Conversion, P>(s.floats, s.bits) == "");
    }
  });
}

TEMPLATE_LIST_TEST_CASE("Half and Bfloat16: two vectors of pairs, written together or apart",
                        "[simd][float16]", tiers::FloatPacks) {
  using P = typename TestType::P;
  if constexpr (requires(void* p, P a) { P::store_bfloat16_pairs(p, a, a, p, a, a); }) {
    constexpr auto width = static_cast<std::size_t>(P::width), step = 2 * width;
    for (const Sample& s : samples<Bfloat16Pairs>()) {
      bool same = true;
      for (std::size_t at = 0; at + step <= s.floats.size(); at += step) {
        const float *x = s.floats.data() + at, *y = s.floats.data() + s.floats.size() - step - at;
        const P even = P::load(x), odd = P::load(x + width);
        const P even2 = P::load(y), odd2 = P::load(y + width);
        std::uint16_t joint[2 * step], separate[2 * step];
        P::store_bfloat16_pairs(joint, even, odd, joint + step, even2, odd2);
        P::store_bfloat16_pairs(separate, even, odd);
        P::store_bfloat16_pairs(separate + step, even2, odd2);
        same &= std::memcmp(joint, separate, sizeof(separate)) == 0;
      }
      CHECK(same);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("Half and Bfloat16: one NaN among denormals stays NaN", "[simd][float16]",
                        tiers::FloatPacks) {
  using P = typename TestType::P;
  if constexpr (requires(void* p, P a) { P::store_bfloat16_pairs(p, a, a); }) {
    constexpr auto width = static_cast<std::size_t>(P::width);
    for (std::size_t lane = 0; lane < 2 * width; ++lane) {
      float even[width], odd[width];
      std::fill_n(even, width, 0x1p-130f);
      std::fill_n(odd, width, 0x1p-130f);
      (lane % 2 == 0 ? even : odd)[lane / 2] = std::numeric_limits<float>::quiet_NaN();
      std::uint16_t stored[2 * width];
      P::store_bfloat16_pairs(stored, P::load(even), P::load(odd));
      bool right = true;
      for (std::size_t i = 0; i < 2 * width; ++i) {
        right = right && (i == lane ? (stored[i] & 0x7fff) > 0x7f80 : stored[i] == 0x0008);
      }
      CAPTURE(lane);
      CHECK(right);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("Half and Bfloat16: access their bytes alone, at any address",
                        "[simd][float16]", tiers::FloatPacks) {
  using P = typename TestType::P;
  INFO(TestType::Tier::name);
  for_each_conversion([](auto conversion) {
    using Conversion = decltype(conversion);
    constexpr Index count = Conversion::packs_per_call * P::width, bytes = 2 * count;
    support::Guarded<unsigned char> memory(bytes + 9);
    std::vector<std::uint16_t> bits;
    for (Index i = 0; i < count; ++i) bits.push_back(static_cast<std::uint16_t>(0x3c00 + i));
    for (const bool front : {true, false}) {
      for (Index shift = 0; shift < 9; ++shift) {
        unsigned char* p = memory.at(front, bytes) + (front ? shift : -shift);
        float floats[static_cast<std::size_t>(count)];
        Conversion::template widen<P>(bits.data(), floats);
        memory.clear();
        Conversion::template narrow<P>(floats, p);
        CHECK(std::memcmp(p, bits.data(), static_cast<std::size_t>(bytes)) == 0);
        CHECK(memory.kept_around(p, bytes));
        float again[static_cast<std::size_t>(count)];
        Conversion::template widen<P>(p, again);
        CHECK(std::memcmp(again, floats, sizeof(floats)) == 0);
      }
    }
  });
}

namespace {

template <class P, class T>
void check_partial() {
  for (Index n = 0; n <= P::width; ++n) {
    support::Guarded<T> memory(P::width);
    for (const bool front : {true, false}) {
      memory.clear();
      T* p = memory.at(front, n);
      for (Index i = 0; i < n; ++i) p[i] = static_cast<T>(static_cast<float>(i + 1));
      const P value = posenc::detail::load_partial_as<P>(p, n);
      const auto lanes = tiers::lanes_of(value);
      for (Index i = 0; i < P::width; ++i) {
        CHECK(lanes[static_cast<std::size_t>(i)] == static_cast<float>(i < n ? i + 1 : 0));
      }
      posenc::detail::store_partial_as(value + P::broadcast(1), p, n);
      for (Index i = 0; i < n; ++i) CHECK(static_cast<float>(p[i]) == static_cast<float>(i + 2));
      CHECK(memory.kept_around(p, n));
    }
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("Half and Bfloat16: the first few, and types of the user's own",
                        "[simd][float16]", tiers::FloatPacks) {
  using P = typename TestType::P;
  INFO(TestType::Tier::name);
  check_partial<P, Eigen::half>();
  check_partial<P, Eigen::bfloat16>();
  check_partial<P, posenc::Half>();
  check_partial<P, posenc::Bfloat16>();
  check_partial<P, support::UserHalf>();
  check_partial<P, support::UserBfloat16>();
  check_partial<P, support::UserFloat16>();
  check_partial<P, float>();
}

}  // namespace float16_test
