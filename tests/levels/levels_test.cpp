// SPDX-License-Identifier: MIT
// Units compiled for different ISA levels and linked into one program must not use each other's
// functions.
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include "unit.hpp"
#include <posenc/core/error.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

namespace {

constexpr std::int64_t seq = 5, heads = 3, dim = 80, first = 131071;

bool has_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}
bool has_v4() {
  return has_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/// Returns the units that this processor supports. Code of a unit runs only after that check.
std::vector<LevelUnit> units(bool with_fma, bool without_fma) {
  std::vector<LevelUnit> all;
  if (without_fma) all.push_back(x86_64_unit());
  if (with_fma && has_v3()) {
    all.push_back(x86_64_v3_unit());
    all.push_back(avx2_without_f16c_unit());
  }
  if (with_fma && has_v4()) {
    all.push_back(x86_64_v4_unit());
    all.push_back(x86_64_v4_forced_avx2_unit());
    all.push_back(x86_64_v4_forced_scalar_unit());
  }
  return all;
}

std::string name(const LevelUnit& unit) {
  return std::string("tier ") + unit.tier + ", level " + unit.level;
}

/// Results of a unit for the same random data.
struct Results {
  std::vector<float> half, interleaved, sinusoidal, alibi, exp;
  std::vector<double> wide;
  std::vector<std::uint16_t> bfloat16, float16;

  explicit Results(const LevelUnit& unit) {
    support::Random random(1);
    const auto fill = [&random](auto& values, std::int64_t count) {
      values.resize(static_cast<std::size_t>(count));
      random.fill_normal(values);
    };
    fill(half, seq * heads * dim);
    fill(interleaved, seq * heads * dim);
    fill(wide, seq * heads * dim);
    fill(sinusoidal, seq * dim);
    fill(alibi, 37 * 37);
    fill(exp, 1001);
    for (float& x : exp) x *= 30;
    for (const float x : half) {
      bfloat16.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16));
    }
    // The values of `wide`, and the infinities and NaN with an exponent of all ones.
    for (const double x : wide)
      float16.push_back(static_cast<std::uint16_t>(static_cast<int>(4096 * x)));
    for (int i = 0; i < dim; ++i) float16.push_back(static_cast<std::uint16_t>(0x7bf0 + 8 * i));
    std::vector<double> positions;
    for (int i = 0; i < 37; ++i) positions.push_back(1000 + 3 * i);
    unit.rotate_half(half.data(), first, seq, heads, dim);
    unit.rotate_interleaved(interleaved.data(), first, seq, heads, dim);
    unit.rotate_double(wide.data(), first, seq, heads, dim);
    unit.rotate_bfloat16(bfloat16.data(), first, seq, heads, dim);
    unit.rotate_float16(float16.data(), first, seq, heads, dim);
    unit.rotate_float16(float16.data() + seq * heads * dim, first, 1, 1, dim);
    for (std::uint16_t& x : float16) {
      if ((x & 0x7fff) > 0x7c00) x = 0x7e00;  // a sum of two NaN gives either
    }
    unit.add_sinusoidal(sinusoidal.data(), first, seq, dim);
    unit.add_alibi(alibi.data(), positions.data(), 37);
    unit.exp(exp.data(), 1001);
  }

  bool operator==(const Results&) const = default;
};

/// Returns the largest difference in units of the last place of numbers between 2 and 4, which are
/// larger than nearly all numbers here.
template <class T>
double greatest_difference(const std::vector<T>& a, const std::vector<T>& b) {
  return support::max_abs_difference(a, b) /
         static_cast<double>(2 * std::numeric_limits<T>::epsilon());
}

}  // namespace

TEST_CASE("build_info: each unit reports what it was compiled for", "[levels]") {
  const LevelUnit plain = x86_64_unit();
  CHECK(std::string(plain.tier) == "sse2");
  CHECK(std::string(plain.level) == "sse2");
  CHECK_FALSE(plain.fma);
  if (!has_v3()) {
    WARN("this processor lacks x86-64-v3");
    return;
  }
  const LevelUnit v3 = x86_64_v3_unit();
  CHECK(std::string(v3.tier) == "avx2");
  CHECK(std::string(v3.level) == "avx2");
  CHECK(v3.fma);
  const LevelUnit without_f16c = avx2_without_f16c_unit();
  CHECK(std::string(without_f16c.tier) == "avx2");
  CHECK(std::string(without_f16c.level) == "avx2fma");
  if (!has_v4()) {
    WARN("this processor lacks x86-64-v4");
    return;
  }
  const LevelUnit v4 = x86_64_v4_unit(), down = x86_64_v4_forced_avx2_unit(),
                  scalar = x86_64_v4_forced_scalar_unit();
  CHECK(std::string(v4.tier) == "avx512");
  CHECK(std::string(down.tier) == "avx2");
  CHECK(std::string(scalar.tier) == "scalar");
  for (const LevelUnit& unit : {v4, down, scalar}) {
    CHECK(std::string(unit.level) == "avx512");
    CHECK(unit.fma);
  }
}

TEST_CASE("POSENC_ABI_TAG: units with fma give the same bits", "[levels]") {
  const auto all = units(true, false);
  if (all.empty()) return;
  const Results expected(all.front());
  for (const LevelUnit& unit : all) {
    INFO(name(unit));
    const Results results(unit);
    CHECK(results.half == expected.half);
    CHECK(results.interleaved == expected.interleaved);
    CHECK(results.wide == expected.wide);
    CHECK(results.bfloat16 == expected.bfloat16);
    CHECK(results.float16 == expected.float16);
    CHECK(results.sinusoidal == expected.sinusoidal);
    CHECK(results.alibi == expected.alibi);
    CHECK(results.exp == expected.exp);
  }
}

TEST_CASE("POSENC_ABI_TAG: units without fma differ in the last places", "[levels]") {
  const Results plain(x86_64_unit());
  for (const LevelUnit& unit : units(true, false)) {
    INFO(name(unit));
    const Results results(unit);
    // One more product is rounded, and cos and sin may round to adjacent values.
    CHECK(greatest_difference(results.half, plain.half) <= 2);
    CHECK(greatest_difference(results.interleaved, plain.interleaved) <= 2);
    // Both angles are within 4e-16 of the exact ones.
    CHECK(greatest_difference(results.wide, plain.wide) <= 8);
    CHECK(greatest_difference(results.sinusoidal, plain.sinusoidal) <= 1);
    CHECK(results.alibi == plain.alibi);
    for (std::size_t i = 0; i < plain.exp.size(); ++i) {
      CHECK(support::ulp_distance(results.exp[i], plain.exp[i]) <= 2);
    }
    int differing = 0;
    for (std::size_t i = 0; i < plain.bfloat16.size(); ++i) {
      const int distance = std::abs(int{results.bfloat16[i]} - int{plain.bfloat16[i]});
      CHECK((distance <= 1 || (results.bfloat16[i] & 0x7fff) < 0x3000));
      differing += distance != 0 ? 1 : 0;
    }
    CHECK(differing <= 3);
  }
}

TEST_CASE("POSENC_ABI_TAG: a unit's result does not depend on the units that ran before",
          "[levels]") {
  auto all = units(true, true);
  std::vector<Results> before;
  for (const LevelUnit& unit : all) before.emplace_back(unit);
  for (std::size_t i = all.size(); i-- > 0;) {
    INFO(name(all[i]));
    CHECK(Results(all[i]) == before[i]);
  }
}

TEST_CASE("Error: thrown by one unit is caught in another", "[levels]") {
  for (const LevelUnit& unit : units(true, true)) {
    INFO(name(unit));
    CHECK_THROWS_AS(unit.fail(), posenc::ConfigError);
  }
}
