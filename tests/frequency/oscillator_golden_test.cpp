// SPDX-License-Identifier: MIT
// The promised accuracy against stored true values, for builds without MPFR.
#include "frequency/bounds.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/frequency/unscaled.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <vector>

namespace oscillator_golden_test {

using posenc::Frequencies;
using posenc::frequencies;
using posenc::Index;
using posenc::detail::DoubleDouble;
using posenc::detail::Oscillator;

namespace {

constexpr double numbers[] = {
#include "golden/oscillator.csv"
};

struct Row {
  static constexpr std::size_t width = 10;

  double base;
  Index rotary_dim, pair;
  double position;
  DoubleDouble inv_freq, cos, sin;

  explicit Row(const double* n)
      : base(n[0]),
        rotary_dim(static_cast<Index>(n[1])),
        pair(static_cast<Index>(n[2])),
        position(n[3]),
        inv_freq(n[4], n[5]),
        cos(n[6], n[7]),
        sin(n[8], n[9]) {}

  /// Evaluates the rule if there is one; otherwise takes the frequency as given.
  Frequencies make_frequencies() const {
    if (base == 0) return posenc::detail::exact_frequencies({inv_freq});
    return frequencies(posenc::Unscaled{.rotary_dim = rotary_dim, .base = base});
  }
};

std::vector<Row> golden_rows() {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < std::size(numbers); i += Row::width) rows.emplace_back(numbers + i);
  return rows;
}

double error_of(double value, DoubleDouble truth) {
  return std::abs((DoubleDouble(value) - truth).hi);
}

}  // namespace

TEST_CASE("Oscillator: cos and sin of the stored angles", "[oscillator][golden]") {
  STATIC_REQUIRE(std::size(numbers) % Row::width == 0);
  STATIC_REQUIRE(std::size(numbers) >= 300 * Row::width);
  for (const Row& row : golden_rows()) {
    CAPTURE(row.base, row.rotary_dim, row.pair, row.position, row.inv_freq.hi);
    const Oscillator oscillator(posenc::detail::exact_inv_freq(row.make_frequencies()));
    const double angle = row.position * row.inv_freq.hi;

    double cos = 0, sin = 0;
    oscillator.cos_sin_row(row.position, row.pair, 1, 1.0, &cos, &sin);
    CHECK(bounds::share(error_of(cos, row.cos), angle) <= 1);
    CHECK(bounds::share(error_of(sin, row.sin), angle) <= 1);

    float cos_float = 0, sin_float = 0;
    oscillator.cos_sin_row(row.position, row.pair, 1, 1.0, &cos_float, &sin_float);
    const double cos_error = error_of(static_cast<double>(cos_float), row.cos);
    const double sin_error = error_of(static_cast<double>(sin_float), row.sin);
    CHECK(bounds::float_share(cos_error, row.cos.hi, angle) <= 1);
    CHECK(bounds::float_share(sin_error, row.sin.hi, angle) <= 1);
  }
}

TEST_CASE("Oscillator: the stored frequencies", "[oscillator][golden]") {
  for (const Row& row : golden_rows()) {
    const DoubleDouble ours =
        posenc::detail::exact_inv_freq(row.make_frequencies())[static_cast<std::size_t>(row.pair)];
    CAPTURE(row.base, row.rotary_dim, row.pair);
    REQUIRE(ours.hi == row.inv_freq.hi);
    REQUIRE(std::abs((ours - row.inv_freq).hi) <= 0x1p-95 * std::abs(row.inv_freq.hi));
  }
}

}  // namespace oscillator_golden_test
