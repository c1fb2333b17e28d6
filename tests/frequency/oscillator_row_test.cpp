// SPDX-License-Identifier: MIT
// Oscillator::cos_sin_row on every tier: its accuracy against stored true values, and bit-identical results
// for any part of a row.
#include "frequency/bounds.hpp"
#include "simd/tiers.hpp"
#include "support/guarded.hpp"
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/unscaled.hpp>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <vector>

namespace oscillator_row_test {

using posenc::Index;
using posenc::detail::CosSin;
using posenc::detail::DoubleDouble;
using posenc::detail::Oscillator;

namespace {

Oscillator oscillator_of(Index pairs) {
  const posenc::Unscaled rule{.rotary_dim = 2 * pairs, .base = 500000};
  return Oscillator(posenc::detail::exact_inv_freq(posenc::frequencies(rule)));
}

/// True if the row equals factor times the pairs computed one by one, each rounded once to T, and
/// nothing else is written.
template <class Tier, class T>
bool row_is_right(const Oscillator& oscillator, double position, Index first, Index count,
                  double factor, bool front) {
  support::Guarded<T> cos(count), sin(count);
  T* c = cos.at(front, count);
  T* s = sin.at(front, count);
  oscillator.cos_sin_row<Tier>(position, first, count, factor, c, s);
  for (Index i = 0; i < count; ++i) {
    const CosSin want = oscillator.at(position, first + i);
    if (tiers::bits(c[i]) != tiers::bits(static_cast<T>(factor * want.cos))) return false;
    if (tiers::bits(s[i]) != tiers::bits(static_cast<T>(factor * want.sin))) return false;
  }
  return cos.kept_around(c, count) && sin.kept_around(s, count);
}

constexpr double golden[] = {
#include "golden/oscillator.csv"
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("Oscillator rows: any part of a row, on every tier", "[simd][oscillator]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  INFO(Tier::name);
  constexpr Index longest = 4 * posenc::Pack<double, Tier>::width + 1;
  const Oscillator oscillator = oscillator_of(longest + 3);
  for (Index count = 0; count <= longest; ++count) {
    for (const Index first : {0, 1, 3}) {
      for (const double factor : {1.0, 1.3465735902799727}) {
        CAPTURE(count, first, factor);
        CHECK(row_is_right<Tier, T>(oscillator, 131071, first, count, factor, first == 0));
        CHECK(row_is_right<Tier, T>(oscillator, -0x1p40 - 0.5, first, count, factor, first != 0));
        CHECK(row_is_right<Tier, T>(oscillator, 0, first, count, factor, true));
      }
    }
  }
}

TEST_CASE("Oscillator rows: the last frequencies end at the end of its memory",
          "[simd][oscillator]") {
  // Under a sanitizer this fails if a partial vector is read in full.
  for (Index pairs = 1; pairs <= 33; ++pairs) {
    CAPTURE(pairs);
    CHECK(row_is_right<posenc::tier::Best, float>(oscillator_of(pairs), 7, 0, pairs, 1, false));
  }
}

TEMPLATE_LIST_TEST_CASE("Oscillator rows: cos and sin of the stored angles, on every tier",
                        "[simd][oscillator][golden]", tiers::All) {
  using Tier = TestType;
  INFO(Tier::name);
  constexpr std::size_t columns = 10;
  constexpr Index width = posenc::Pack<double, Tier>::width;
  for (std::size_t at = 0; at < std::size(golden); at += columns) {
    const double* n = golden + at;
    const DoubleDouble inv_freq(n[4], n[5]), truth[] = {{n[6], n[7]}, {n[8], n[9]}};
    const double position = n[3], angle = position * inv_freq.hi;
    // Every lane of two vectors, of one vector, and of a partial vector holds one and the same
    // frequency.
    const std::vector<DoubleDouble> all(static_cast<std::size_t>(4 * width - 1), inv_freq);
    const Oscillator oscillator(all);
    const auto check = [&]<class T>(T) {
      std::vector<T> row[] = {std::vector<T>(all.size()), std::vector<T>(all.size())};
      oscillator.cos_sin_row<Tier>(position, 0, oscillator.size(), 1.0, row[0].data(),
                                   row[1].data());
      for (const int k : {0, 1}) {
        for (const T value : row[k]) {
          const double error = std::abs((DoubleDouble(static_cast<double>(value)) - truth[k]).hi);
          const double share = sizeof(T) == 8 ? bounds::share(error, angle)
                                              : bounds::float_share(error, truth[k].hi, angle);
          if (!(share <= 1)) return false;
        }
      }
      return true;
    };
    CAPTURE(position, inv_freq.hi);
    CHECK(check(double{}));
    CHECK(check(float{}));
  }
}

}  // namespace oscillator_row_test
