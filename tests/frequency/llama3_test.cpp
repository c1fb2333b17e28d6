// SPDX-License-Identifier: MIT
// Llama 3: a ramp over rotations, its limits, and the same rule under other names.
#include "frequency/ramps.hpp"
#include "frequency/rejections.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/divisors.hpp>
#include <posenc/frequency/llama3.hpp>
#include <posenc/frequency/ntk_by_parts.hpp>
#include <posenc/frequency/yarn.hpp>

#include <algorithm>
#include <numbers>
#include <string>
#include <vector>

namespace llama3_test {

using posenc::Frequencies;
using posenc::frequencies;
using posenc::Llama3Scaling;
using posenc::NtkByPartsScaling;
using ramps::check_parts;
using ramps::linear;
using ramps::unscaled;
using namespace rejections;  // NOLINT: every check of a rejection

namespace {

constexpr Llama3Scaling llama3{.rotary_dim = 128,
                               .base = 500000,
                               .factor = 8,
                               .low_freq_factor = 1,
                               .high_freq_factor = 4,
                               .original_max_position = 8192};

}  // namespace

TEST_CASE("Llama3Scaling: keeps fast pairs, divides slow ones, and joins them", "[ramps]") {
  check_parts(frequencies(llama3), unscaled(128, 500000), linear(128, 500000, 8), 8192, 1, 4);
  CHECK(frequencies(llama3).attention_factor() == 1);
}

TEST_CASE("Llama3Scaling: is NTK-by-parts with other ends", "[ramps]") {
  CHECK(frequencies(llama3) == frequencies(NtkByPartsScaling{.rotary_dim = 128,
                                                             .base = 500000,
                                                             .factor = 8,
                                                             .original_max_position = 8192,
                                                             .alpha = 1,
                                                             .beta = 4}));
}

TEST_CASE("Llama3Scaling: ends that meet are a step", "[ramps]") {
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

TEST_CASE("Llama3Scaling: the step lies where the rotations reach it", "[ramps]") {
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

TEST_CASE("Llama3Scaling: ends that draw near each other tend to the step", "[ramps]") {
  Llama3Scaling step = llama3, narrow = llama3;
  step.low_freq_factor = step.high_freq_factor = 2;
  narrow.low_freq_factor = 2;
  narrow.high_freq_factor = 2.0000001;
  CHECK(frequencies(narrow) == frequencies(step));
}

TEST_CASE("Llama3Scaling: as divisors, as GGUF files carry it", "[ramps]") {
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

TEST_CASE(
    "Llama3Scaling: however large the factor, fast pairs are kept and slow ones do not rotate",
    "[ramps]") {
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

TEST_CASE("Llama3Scaling: rejects bad settings", "[rules]") {
  const Llama3Scaling rule{.rotary_dim = 8,
                           .base = 500000,
                           .factor = 8,
                           .low_freq_factor = 1,
                           .high_freq_factor = 4,
                           .original_max_position = 8192};
  check_shared_fields(rule, 2);
  check_factor(rule);
  check_length(rule);
  const std::string ends =
      "Llama3Scaling: high_freq_factor >= low_freq_factor > 0 must hold but they are ";
  check_rejected(rule, &Llama3Scaling::low_freq_factor, 0.0, ends + "4 and 0");
  check_rejected(rule, &Llama3Scaling::low_freq_factor, 5.0, ends + "4 and 5");
  check_rejected(rule, &Llama3Scaling::low_freq_factor, not_a_number, ends + "4 and nan");
  check_rejected(rule, &Llama3Scaling::high_freq_factor, 0.0, ends + "0 and 1");
  check_rejected(rule, &Llama3Scaling::high_freq_factor, infinity, ends + "inf and 1");
}

}  // namespace llama3_test
