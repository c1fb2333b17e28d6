// SPDX-License-Identifier: MIT
// Divisors that a user supplies.
#include "frequency/rejections.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/divisors.hpp>

#include <string>
#include <vector>

namespace divisors_test {

using posenc::DivisorScaling;
using posenc::Index;
using namespace rejections;  // NOLINT: every check of a rejection

TEST_CASE("DivisorScaling: rejects bad settings", "[rules]") {
  const DivisorScaling rule{.rotary_dim = 4, .base = 10000, .divisors = {1, 8}};
  using List = std::vector<double>;
  check_rejected(rule, &DivisorScaling::rotary_dim, Index{3},
                 "DivisorScaling: rotary_dim must be even and at least 2 but is 3");
  check_rejected(rule, &DivisorScaling::base, 1.0,
                 "DivisorScaling: base must be set, finite and greater than 1, but is 1");
  check_rejected(rule, &DivisorScaling::divisors, List{},
                 "DivisorScaling: divisors must have rotary_dim / 2 = 2 divisors but has 0");
  check_rejected(rule, &DivisorScaling::divisors, List{1, 2, 3},
                 "DivisorScaling: divisors must have rotary_dim / 2 = 2 divisors but has 3");
  const std::string positive = "DivisorScaling: divisors must be positive and finite but has ";
  check_rejected(rule, &DivisorScaling::divisors, List{1, 0}, positive + "0");
  check_rejected(rule, &DivisorScaling::divisors, List{-1, 1}, positive + "-1");
  check_rejected(rule, &DivisorScaling::divisors, List{1, infinity}, positive + "inf");
  check_rejected(rule, &DivisorScaling::divisors, List{1, not_a_number}, positive + "nan");
  check_rejected(rule, &DivisorScaling::attention_factor, 0.0,
                 "Frequencies: attention_factor must be positive and finite but is 0");
}

TEST_CASE("DivisorScaling: frequencies are divided pair by pair", "[divisors]") {
  const DivisorScaling rule{
      .rotary_dim = 6, .base = 1000, .divisors = {1, 8, 0.5}, .attention_factor = 1.25};
  const auto ours = frequencies(rule);
  CHECK(ours.inv_freq()[0] == 1);
  CHECK(ours.inv_freq()[1] == Approx(0.0125).epsilon(1e-15));
  CHECK(ours.inv_freq()[2] == Approx(0.02).epsilon(1e-15));
  CHECK(ours.attention_factor() == 1.25);
  CHECK(ours.softmax_scale_multiplier() == 1);
}

TEST_CASE("DivisorScaling: divisors have bounds that their products with frequencies keep",
          "[divisors]") {
  const DivisorScaling rule{.rotary_dim = 4, .base = 10000, .divisors = {1e-100, 1e100}};
  CHECK(frequencies(rule).inv_freq()[0] == Approx(1e100));
  CHECK(frequencies(rule).inv_freq()[1] == Approx(1e-102));
  const std::string bounds = "DivisorScaling: divisors must lie between 1e-100 and 1e100 but has ";
  check_rejected(rule, &DivisorScaling::divisors, {1, 1e-101}, bounds + "1e-101");
  check_rejected(rule, &DivisorScaling::divisors, {1e101, 1}, bounds + "1e+101");
}

}  // namespace divisors_test
