// SPDX-License-Identifier: MIT
// Properties of the oscillator that need no true cos or sin.
#include "frequency/presets.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/unscaled.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace oscillator_test {

using posenc::Frequencies;
using posenc::frequencies;
using posenc::Index;
using posenc::detail::CosSin;
using posenc::detail::Oscillator;

namespace {

Oscillator llama() {
  return Oscillator(posenc::detail::exact_inv_freq(
      frequencies(posenc::Unscaled{.rotary_dim = 128, .base = 500000})));
}

/// cos and sin of all frequencies at one position.
template <class T>
struct Row {
  std::vector<T> cos, sin;

  Row(const Oscillator& oscillator, double position, double factor = 1)
      : cos(static_cast<std::size_t>(oscillator.size())), sin(cos.size()) {
    oscillator.cos_sin_row(position, 0, oscillator.size(), factor, cos.data(), sin.data());
  }
};

/// Returns the bits, so that -0 differs from 0.
std::uint64_t bits(double x) { return std::bit_cast<std::uint64_t>(x); }

}  // namespace

TEST_CASE("Oscillator: returns its frequencies", "[oscillator]") {
  const Oscillator oscillator = llama();
  CHECK(oscillator.size() == 64);
  CHECK(oscillator.max_inv_freq() == 1);
  const auto user_frequencies = Frequencies::from_inv_freq(std::vector<double>{0.5, -3.0, 0.0});
  CHECK(Oscillator(posenc::detail::exact_inv_freq(user_frequencies)).max_inv_freq() == 3);
  CHECK(Oscillator({}).size() == 0);
  CHECK(Oscillator({}).max_inv_freq() == 0);
}

TEST_CASE("Oscillator: a part of a row has the bits of the row", "[oscillator]") {
  const Oscillator oscillator = llama();
  for (const double position : {131071.0, -0x1p40 - 0.5}) {
    const Row<double> row(oscillator, position);
    for (const Index first : {1, 3, 20}) {
      const Index count = oscillator.size() - first;
      std::vector<double> cos(static_cast<std::size_t>(count)), sin(cos.size());
      oscillator.cos_sin_row(position, first, count, 1.0, cos.data(), sin.data());
      CHECK(std::equal(cos.begin(), cos.end(), row.cos.begin() + first));
      CHECK(std::equal(sin.begin(), sin.end(), row.sin.begin() + first));
    }
  }
}

TEST_CASE("Oscillator: position 0 is exactly (1, 0)", "[oscillator]") {
  const auto check = [](const Oscillator& oscillator) {
    for (Index i = 0; i < oscillator.size(); ++i) {
      for (const double zero : {0.0, -0.0}) {
        const CosSin value = oscillator.at(zero, i);
        REQUIRE(bits(value.cos) == bits(1.0));
        REQUIRE(bits(value.sin) == bits(0.0));
      }
    }
  };
  check(llama());
  const auto user_frequencies =
      Frequencies::from_inv_freq(std::vector<double>{123.456, -0.75, 0.0, 1e-300});
  check(Oscillator(posenc::detail::exact_inv_freq(user_frequencies)));
}

TEST_CASE("Oscillator: frequency 0 is (1, 0) at every position", "[oscillator]") {
  const auto still = Frequencies::from_inv_freq(std::vector<double>{0.0});
  const Oscillator oscillator(posenc::detail::exact_inv_freq(still));
  for (const double position : {1.0, -5.0, 0x1p53, 1e300}) {
    CHECK(oscillator.at(position, 0).cos == 1);
    CHECK(oscillator.at(position, 0).sin == 0);
  }
}

TEST_CASE("Oscillator: cos is even and sin is odd, bit for bit", "[oscillator]") {
  const Oscillator oscillator = llama();
  support::Random random(41);
  for (int n = 0; n < 200; ++n) {
    const double position = std::exp2(random.uniform(-10, 50));
    for (Index i = 0; i < oscillator.size(); ++i) {
      const CosSin forward = oscillator.at(position, i), backward = oscillator.at(-position, i);
      REQUIRE(bits(backward.cos) == bits(forward.cos));
      REQUIRE(bits(backward.sin) == bits(-forward.sin));
    }
  }
}

TEST_CASE("Oscillator: a negative frequency rotates the other way", "[oscillator]") {
  const auto both = Frequencies::from_inv_freq(std::vector<double>{0.37, -0.37});
  const Oscillator oscillator(posenc::detail::exact_inv_freq(both));
  for (const double position : presets::positions) {
    CAPTURE(position);
    CHECK(oscillator.at(position, 1).cos == oscillator.at(position, 0).cos);
    CHECK(oscillator.at(position, 1).sin == -oscillator.at(position, 0).sin);
  }
}

TEST_CASE("Oscillator: a row is at() of each pair, rounded once", "[oscillator]") {
  const Oscillator oscillator = llama();
  for (const double position : presets::positions) {
    CAPTURE(position);
    const Row<double> wide(oscillator, position);
    const Row<float> narrow(oscillator, position);
    for (std::size_t i = 0; i < wide.cos.size(); ++i) {
      const CosSin value = oscillator.at(position, static_cast<Index>(i));
      REQUIRE(wide.cos[i] == value.cos);
      REQUIRE(wide.sin[i] == value.sin);
      REQUIRE(narrow.cos[i] == static_cast<float>(value.cos));
      REQUIRE(narrow.sin[i] == static_cast<float>(value.sin));
    }
  }
}

TEST_CASE("Oscillator: the factor multiplies before the one rounding", "[oscillator]") {
  const Oscillator oscillator = llama();
  const double factor = 1.3465735902799727;
  const Row<float> scaled(oscillator, 12345, factor);
  for (std::size_t i = 0; i < scaled.cos.size(); ++i) {
    const CosSin value = oscillator.at(12345, static_cast<Index>(i));
    REQUIRE(scaled.cos[i] == static_cast<float>(factor * value.cos));
    REQUIRE(scaled.sin[i] == static_cast<float>(factor * value.sin));
  }
}

TEST_CASE("Oscillator: a row may be asked for in parts", "[oscillator]") {
  const Oscillator oscillator = llama();
  const Row<float> whole(oscillator, -98765.5);
  std::vector<float> cos(64), sin(64);
  for (const auto& [first, count] : {std::pair<Index, Index>{0, 5}, {5, 0}, {5, 1}, {6, 58}}) {
    oscillator.cos_sin_row(-98765.5, first, count, 1.0, cos.data() + first, sin.data() + first);
  }
  CHECK(cos == whole.cos);
  CHECK(sin == whole.sin);
}

}  // namespace oscillator_test
