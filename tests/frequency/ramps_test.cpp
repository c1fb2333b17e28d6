// SPDX-License-Identifier: MIT
// Rules that keep fast pairs and interpolate slow ones, with a ramp over rotations, or two ramps.
#include "frequency/presets.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include <posenc/frequency/divisors.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/llama3.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/ntk_by_parts.hpp>
#include <posenc/frequency/two_ramp_ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

namespace ramps_test {

using posenc::Frequencies;
using posenc::frequencies;
using posenc::Index;
using posenc::Llama3Scaling;
using posenc::NtkByPartsScaling;

namespace {

constexpr Llama3Scaling llama3{.rotary_dim = 128,
                               .base = 500000,
                               .factor = 8,
                               .low_freq_factor = 1,
                               .high_freq_factor = 4,
                               .original_max_position = 8192};

Frequencies unscaled(Index dim, double base) {
  return frequencies(posenc::Unscaled{.rotary_dim = dim, .base = base});
}

Frequencies linear(Index dim, double base, double factor) {
  return frequencies(posenc::LinearScaling{.rotary_dim = dim, .base = base, .factor = factor});
}

/// Checks that pairs are kept bit for bit above `high` rotations in `length`, and divided bit for
/// bit below `low`. Pairs between are strictly between the two, and slower from pair to pair.
void check_parts(const Frequencies& ours, const Frequencies& kept, const Frequencies& divided,
                 double length, double low, double high) {
  Index inside = 0;
  for (std::size_t i = 0; i < posenc::detail::exact_inv_freq(ours).size(); ++i) {
    CAPTURE(i);
    const auto w = posenc::detail::exact_inv_freq(ours)[i];
    const double rotations = kept.inv_freq()[i] * length / (2 * std::numbers::pi);
    if (rotations >= high) {
      REQUIRE(w == posenc::detail::exact_inv_freq(kept)[i]);
    } else if (rotations <= low) {
      REQUIRE(w == posenc::detail::exact_inv_freq(divided)[i]);
    } else {
      REQUIRE(w < posenc::detail::exact_inv_freq(kept)[i]);
      REQUIRE(w > posenc::detail::exact_inv_freq(divided)[i]);
      ++inside;
    }
    if (i > 0) REQUIRE(w < posenc::detail::exact_inv_freq(ours)[i - 1]);
  }
  CHECK(inside > 0);
}

}  // namespace

TEST_CASE("Llama 3 keeps fast pairs, divides slow ones, and joins them", "[ramps]") {
  check_parts(frequencies(llama3), unscaled(128, 500000), linear(128, 500000, 8), 8192, 1, 4);
  CHECK(frequencies(llama3).attention_factor() == 1);
}

TEST_CASE("Llama 3 is NTK-by-parts with other ends", "[ramps]") {
  CHECK(frequencies(llama3) == frequencies(NtkByPartsScaling{.rotary_dim = 128,
                                                             .base = 500000,
                                                             .factor = 8,
                                                             .original_max_position = 8192,
                                                             .alpha = 1,
                                                             .beta = 4}));
}

TEST_CASE("Llama 3 with ends that meet is a step", "[ramps]") {
  Llama3Scaling step = llama3;
  step.low_freq_factor = step.high_freq_factor = 2;
  const auto ours = frequencies(step), kept = unscaled(128, 500000),
             divided = linear(128, 500000, 8);
  for (std::size_t i = 0; i < 64; ++i) {
    CAPTURE(i);
    const double rotations = kept.inv_freq()[i] * 8192 / (2 * std::numbers::pi);
    const auto& expected = rotations >= 2 ? kept : divided;
    CHECK(posenc::detail::exact_inv_freq(ours)[i] == posenc::detail::exact_inv_freq(expected)[i]);
  }
}

TEST_CASE("the step lies where the rotations reach it", "[ramps]") {
  const auto kept = unscaled(128, 500000), divided = linear(128, 500000, 8);
  const double rotations = kept.inv_freq()[30] * 8192 / (2 * std::numbers::pi);
  Llama3Scaling step = llama3;
  step.low_freq_factor = step.high_freq_factor = rotations * (1 - 1e-9);
  CHECK(posenc::detail::exact_inv_freq(frequencies(step))[30] ==
        posenc::detail::exact_inv_freq(kept)[30]);
  step.low_freq_factor = step.high_freq_factor = rotations * (1 + 1e-9);
  CHECK(posenc::detail::exact_inv_freq(frequencies(step))[30] ==
        posenc::detail::exact_inv_freq(divided)[30]);
}

TEST_CASE("ends that draw near each other tend to the step", "[ramps]") {
  Llama3Scaling step = llama3, narrow = llama3;
  step.low_freq_factor = step.high_freq_factor = 2;
  narrow.low_freq_factor = 2;
  narrow.high_freq_factor = 2.0000001;
  CHECK(frequencies(narrow) == frequencies(step));
}

TEST_CASE("Llama 3 as divisors, as GGUF files carry it", "[ramps]") {
  const auto ours = frequencies(llama3), kept = unscaled(128, 500000);
  std::vector<double> divisors;
  for (std::size_t i = 0; i < 64; ++i) {
    const double rotations = kept.inv_freq()[i] * 8192 / (2 * std::numbers::pi);
    const double gamma = std::clamp((rotations - 1) / 3, 0.0, 1.0);
    divisors.push_back(1 / ((1 - gamma) / 8 + gamma));
  }
  const auto baked =
      frequencies(posenc::DivisorScaling{.rotary_dim = 128, .base = 500000, .divisors = divisors});
  for (std::size_t i = 0; i < 64; ++i) {
    CAPTURE(i);
    CHECK(baked.inv_freq()[i] == Approx(ours.inv_freq()[i]).epsilon(1e-14));
  }
}

TEST_CASE("the paper's ramp is another than the one in use", "[ramps]") {
  // Llama-2 with factor 16, pair 38: 0.115 w by rotations and 0.351 w by index.
  const NtkByPartsScaling paper{
      .rotary_dim = 128, .base = 10000, .factor = 16, .original_max_position = 4096};
  const auto kept = unscaled(128, 10000);
  check_parts(frequencies(paper), kept, linear(128, 10000, 16), 4096, 1, 32);
  const auto code = frequencies(posenc::YarnScaling{
      .rotary_dim = 128, .base = 10000, .factor = 16, .original_max_position = 4096});
  CHECK(frequencies(paper).inv_freq()[38] / kept.inv_freq()[38] == Approx(0.115).margin(0.0005));
  CHECK(code.inv_freq()[38] / kept.inv_freq()[38] == Approx(0.351).margin(0.0005));
}

TEST_CASE("two ramps: kept, then NTK, then interpolated", "[ramps]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    const auto index = [base = base, dim = dim](double rotations) {
      return static_cast<double>(
          posenc::detail::pair_index_at_rotations(dim, base, 2048, rotations));
    };
    const auto ours = frequencies(posenc::TwoRampNtkScaling{
        .rotary_dim = dim, .base = base, .factor = 8, .original_max_position = 2048});
    const auto kept = unscaled(dim, base), divided = linear(dim, base, 8),
               ntk = frequencies(posenc::NtkScaling{.rotary_dim = dim, .base = base, .factor = 8});
    for (std::size_t i = 0; i < posenc::detail::exact_inv_freq(ours).size(); ++i) {
      CAPTURE(i);
      const auto pair = static_cast<double>(i);
      const auto w = posenc::detail::exact_inv_freq(ours)[i];
      if (pair <= std::floor(index(16))) CHECK(w == posenc::detail::exact_inv_freq(kept)[i]);
      if (pair >= std::ceil(index(2)) && pair <= std::floor(index(1.25))) {
        CHECK(w == posenc::detail::exact_inv_freq(ntk)[i]);
      }
      if (pair >= std::ceil(index(0.75))) CHECK(w == posenc::detail::exact_inv_freq(divided)[i]);
      CHECK(w <= posenc::detail::exact_inv_freq(kept)[i]);
      CHECK(w >= posenc::detail::exact_inv_freq(divided)[i]);
    }
  }
}

TEST_CASE("however large the factor, fast pairs are kept and slow ones stand still", "[ramps]") {
  constexpr double factor = 1e30;
  const auto check = [](const Frequencies& ours, const Frequencies& kept) {
    CHECK(posenc::detail::exact_inv_freq(ours).front() ==
          posenc::detail::exact_inv_freq(kept).front());
    CHECK(ours.inv_freq().back() < 1e-30);
  };
  Llama3Scaling rule = llama3;
  rule.factor = factor;
  check(frequencies(rule), unscaled(128, 500000));
  check(frequencies(posenc::YarnScaling{
            .rotary_dim = 64, .base = 10000, .factor = factor, .original_max_position = 4096}),
        unscaled(64, 10000));
}

}  // namespace ramps_test
