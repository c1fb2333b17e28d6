// SPDX-License-Identifier: MIT
// Tests LongRopeScaling: choice of the list, attention factors, and what it rejects.
#include "frequency/rejections.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/divisors.hpp>
#include <posenc/frequency/longrope.hpp>

#include <optional>
#include <string>
#include <vector>

namespace longrope_test {

using posenc::Frequencies;
using posenc::frequencies;
using posenc::Index;
using posenc::LongRopeRegime;
using posenc::LongRopeScaling;
using namespace rejections;  // NOLINT: every check of a rejection

namespace {

const LongRopeScaling phi3{.rotary_dim = 6,
                           .base = 10000,
                           .short_factor = {1, 1.05, 1.1},
                           .long_factor = {1.08, 14.5, 64},
                           .original_max_position = 4096,
                           .factor = 32};

}  // namespace

TEST_CASE("LongRopeScaling: the length chooses the regime, the trained length being short",
          "[longrope]") {
  const Frequencies few = frequencies(phi3, LongRopeRegime::Short);
  const Frequencies many = frequencies(phi3, LongRopeRegime::Long);
  CHECK(few != many);
  for (const Index length : {0, 1, 4095, 4096}) CHECK(frequencies(phi3, length) == few);
  for (const Index length : {4097, 131072, 1 << 30}) CHECK(frequencies(phi3, length) == many);
  // An earlier call with another length has no effect.
  CHECK(frequencies(phi3, 10) == few);
}

TEST_CASE("LongRopeScaling: each regime divides by its list", "[longrope]") {
  const auto divided = [](const std::vector<double>& divisors, double attention_factor) {
    return frequencies(posenc::DivisorScaling{.rotary_dim = 6,
                                              .base = 10000,
                                              .divisors = divisors,
                                              .attention_factor = attention_factor});
  };
  const double m = frequencies(phi3, 0).attention_factor();
  CHECK(frequencies(phi3, LongRopeRegime::Short) == divided(phi3.short_factor, m));
  CHECK(frequencies(phi3, LongRopeRegime::Long) == divided(phi3.long_factor, m));
}

TEST_CASE("LongRopeScaling: one attention factor for both regimes", "[longrope]") {
  // Phi-3: sqrt(1 + ln 32 / ln 4096)
  CHECK(frequencies(phi3, 0).attention_factor() == Approx(1.19024).margin(5e-6));
  CHECK(frequencies(phi3, 5000).attention_factor() == frequencies(phi3, 0).attention_factor());

  LongRopeScaling given = phi3;
  given.factor.reset();
  given.attention_factor = 1.5;
  CHECK(frequencies(given, 0).attention_factor() == 1.5);
  CHECK(frequencies(given, 5000).attention_factor() == 1.5);
}

TEST_CASE("LongRopeScaling: an attention factor for each regime", "[longrope]") {
  LongRopeScaling phimoe = phi3;
  phimoe.factor.reset();
  phimoe.short_mscale = 1.25;
  phimoe.long_mscale = 1.375;
  CHECK(frequencies(phimoe, 4096).attention_factor() == 1.25);
  CHECK(frequencies(phimoe, 4097).attention_factor() == 1.375);
}

TEST_CASE("LongRopeScaling: rejects bad settings", "[rules]") {
  const LongRopeScaling rule{.rotary_dim = 4,
                             .base = 10000,
                             .short_factor = {1, 1.5},
                             .long_factor = {1, 8},
                             .original_max_position = 4096,
                             .factor = 32};
  using List = std::vector<double>;
  using Optional = std::optional<double>;
  check_rejected(rule, &LongRopeScaling::rotary_dim, Index{0},
                 "LongRopeScaling: rotary_dim must be even and at least 2 but is 0");
  check_rejected(rule, &LongRopeScaling::base, 0.0,
                 "LongRopeScaling: base must be set, finite and greater than 1, but is 0");
  check_rejected(rule, &LongRopeScaling::short_factor, List{1},
                 "LongRopeScaling: short_factor must have rotary_dim / 2 = 2 divisors but has 1");
  check_rejected(rule, &LongRopeScaling::long_factor, List{1, 2, 3},
                 "LongRopeScaling: long_factor must have rotary_dim / 2 = 2 divisors but has 3");
  check_rejected(rule, &LongRopeScaling::short_factor, List{1, 0},
                 "LongRopeScaling: short_factor must be positive and finite but has 0");
  check_rejected(rule, &LongRopeScaling::long_factor, List{not_a_number, 1},
                 "LongRopeScaling: long_factor must be positive and finite but has nan");
  check_length(rule);
  check_rejected(rule, &LongRopeScaling::original_max_position, Index{1},
                 "LongRopeScaling: original_max_position must be greater than 1 if factor is set");
  check_rejected(rule, &LongRopeScaling::factor, Optional(0.5),
                 "LongRopeScaling: factor must be set, finite and at least 1, but is 0.5");
  const std::string one =
      "LongRopeScaling: exactly one of factor, attention_factor, and short_mscale with long_mscale "
      "must be set, but ";
  check_rejected(rule, &LongRopeScaling::factor, Optional(), one + "0 are");
  check_rejected(rule, &LongRopeScaling::attention_factor, Optional(1.25), one + "2 are");
  check_rejected(
      rule, &LongRopeScaling::short_mscale, Optional(1.25),
      "LongRopeScaling: short_mscale and long_mscale must be set together, but long_mscale is "
      "missing");
  check_rejected(
      rule, &LongRopeScaling::long_mscale, Optional(1.25),
      "LongRopeScaling: short_mscale and long_mscale must be set together, but short_mscale "
      "is missing");
}

}  // namespace longrope_test
