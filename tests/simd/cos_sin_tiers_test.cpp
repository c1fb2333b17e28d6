// SPDX-License-Identifier: MIT
// cos and sin on every tier: the documented accuracy, and the bits of the scalar tier. The tests of
// core and frequency measure the accuracy of the scalar tier over its full range.
#include "frequency/presets.hpp"
#include "support/worse.hpp"
#include "tiers.hpp"
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/simd/cos_sin.hpp>
#include <posenc/simd/detail/pack_pair.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace cos_sin_tiers_test {

using posenc::Index;
using posenc::detail::CosSin;
using posenc::detail::DoubleDouble;

namespace {

struct Angle {
  double position;
  DoubleDouble turns;
};

bool same(const CosSin& a, const CosSin& b) {
  return tiers::bits(a.cos) == tiers::bits(b.cos) && tiers::bits(a.sin) == tiers::bits(b.sin);
}

/// Returns cos_sin() of all angles, P::width per call. The last call is padded with angles of 0.
template <class P>
std::vector<CosSin> cos_sin_of(const std::vector<Angle>& angles) {
  constexpr auto width = static_cast<std::size_t>(P::width);
  std::vector<CosSin> values;
  for (std::size_t at = 0; at < angles.size(); at += width) {
    const std::size_t count = (std::min)(width, angles.size() - at);
    double position[width] = {}, hi[width] = {}, lo[width] = {}, cos[width], sin[width];
    for (std::size_t i = 0; i < count; ++i) {
      position[i] = angles[at + i].position;
      hi[i] = angles[at + i].turns.hi;
      lo[i] = angles[at + i].turns.lo;
    }
    const auto value = posenc::cos_sin(P::load(position), P::load(hi), P::load(lo));
    value.cos.store(cos);
    value.sin.store(sin);
    for (std::size_t i = 0; i < count; ++i) values.push_back({cos[i], sin[i]});
  }
  return values;
}

/// Returns the number of angles whose results differ in bits from those of the scalar tier.
template <class P>
int differing(const std::vector<Angle>& angles) {
  const auto values = cos_sin_of<P>(angles);
  int count = 0;
  for (std::size_t i = 0; i < angles.size(); ++i) {
    if (!same(values[i], posenc::detail::cos_sin(angles[i].position, angles[i].turns))) ++count;
  }
  return count;
}

/// Returns angles from -4.5 to 4.5 quarter turns, which cover all octants, in small odd steps.
std::vector<Angle> octants() {
  std::vector<Angle> angles;
  for (int i = -36864; i <= 36864; i += 3) angles.push_back({i / 8192.0, 1.0});
  return angles;
}

std::vector<Angle> preset_angles() {
  std::vector<Angle> angles;
  for (const auto& [model, base, dim] : presets::all) {
    const auto frequencies = posenc::frequencies(posenc::Unscaled{.rotary_dim = dim, .base = base});
    for (const DoubleDouble& w : posenc::detail::exact_inv_freq(frequencies)) {
      const DoubleDouble turns = w * posenc::detail::two_over_pi;
      for (const double position : presets::positions) angles.push_back({position, turns});
      for (const double far : {0x1p44 + 1, 0x1p50, -0x1p50 + 1, 0x1p49 + 3}) {
        angles.push_back({far, turns});
      }
    }
  }
  return angles;
}

std::vector<Angle> random_angles() {
  support::Random random(41);
  std::vector<Angle> angles;
  for (int i = 0; i < 40000; ++i) {
    const double turns = std::exp2(random.uniform(-24, 0.6)) * (i % 2 == 0 ? 1 : -1);
    angles.push_back({std::exp2(random.uniform(-30, 49)),
                      DoubleDouble(turns, turns * 0x1p-54 * random.uniform(-1, 1))});
  }
  return angles;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("cos_sin on every tier: accurate in every octant", "[simd][cos_sin]",
                        tiers::DoublePacks) {
  using P = typename TestType::P;
  INFO(TestType::Tier::name);
  const auto angles = octants();
  const auto values = cos_sin_of<P>(angles);
  double worst = 0;
  for (std::size_t i = 0; i < angles.size(); ++i) {
    const long double radians =
        std::numbers::pi_v<long double> / 2 * static_cast<long double>(angles[i].position);
    const auto error = [](double value, long double truth) {
      return std::abs(static_cast<double>(static_cast<long double>(value) - truth));
    };
    worst = support::worse(worst, error(values[i].cos, std::cos(radians)));
    worst = support::worse(worst, error(values[i].sin, std::sin(radians)));
  }
  CHECK(worst / 1e-16 <= 4);
}

TEMPLATE_LIST_TEST_CASE("cos_sin on every tier: the same bits", "[simd][cos_sin]",
                        tiers::DoublePacks) {
  using P = typename TestType::P;
  using Two = posenc::detail::PackPair<P>;
  INFO(TestType::Tier::name);
  CHECK(differing<P>(octants()) == 0);
  CHECK(differing<P>(preset_angles()) == 0);
  CHECK(differing<P>(random_angles()) == 0);
  CHECK(differing<Two>(preset_angles()) == 0);
  CHECK(differing<Two>(random_angles()) == 0);
}

TEMPLATE_LIST_TEST_CASE("cos_sin on every tier: exact where it can be", "[simd][cos_sin]",
                        tiers::DoublePacks) {
  using P = typename TestType::P;
  INFO(TestType::Tier::name);
  std::vector<Angle> zeros;
  for (const double turns : {0.0, 1.0, 0x1.45f306dc9c883p-1, -3.25, 1e-300, 1e6}) {
    for (const double zero : {0.0, -0.0}) zeros.push_back({zero, turns});
  }
  for (const CosSin& value : cos_sin_of<P>(zeros)) CHECK(same(value, {1.0, 0.0}));

  constexpr double cos[] = {1, 0, -1, 0}, sin[] = {0, 1, 0, -1};
  std::vector<Angle> quarters;
  for (const double far : {0.0, 0x1p20, 0x1p40, 0x1p49}) {
    for (int k = -8; k <= 8; ++k) quarters.push_back({far + k, 1.0});
  }
  const auto values = cos_sin_of<P>(quarters);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const int quadrant = static_cast<int>(static_cast<std::int64_t>(quarters[i].position) & 3);
    CHECK(values[i].cos == cos[quadrant]);
    CHECK(values[i].sin == sin[quadrant]);
  }
}

TEMPLATE_LIST_TEST_CASE("cos_sin on every tier: cos is even and sin is odd", "[simd][cos_sin]",
                        tiers::DoublePacks) {
  using P = typename TestType::P;
  INFO(TestType::Tier::name);
  for (auto angles : {octants(), preset_angles(), random_angles()}) {
    std::erase_if(angles, [](const Angle& a) { return a.position == 0; });
    const auto forward = cos_sin_of<P>(angles);
    for (Angle& a : angles) a.position = -a.position;
    const auto backward = cos_sin_of<P>(angles);
    int different = 0;
    for (std::size_t i = 0; i < angles.size(); ++i) {
      // If sin is 0, both may be -0.
      const bool odd = backward[i].sin == -forward[i].sin;
      different += odd && backward[i].cos == forward[i].cos ? 0 : 1;
    }
    CHECK(different == 0);
  }
}

}  // namespace cos_sin_tiers_test
