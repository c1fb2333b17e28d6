// SPDX-License-Identifier: MIT
#include "support/catch.hpp"
#include <posenc/frequency/divisors.hpp>
#include <posenc/frequency/longrope.hpp>

#include <vector>

namespace longrope_test {

using posenc::Frequencies;
using posenc::frequencies;
using posenc::Index;
using posenc::LongRopeRegime;
using posenc::LongRopeScaling;

namespace {

const LongRopeScaling phi3{.rotary_dim = 6,
                           .base = 10000,
                           .short_factor = {1, 1.05, 1.1},
                           .long_factor = {1.08, 14.5, 64},
                           .original_max_position = 4096,
                           .factor = 32};

}  // namespace

TEST_CASE("the length chooses the regime, the trained length being short", "[longrope]") {
  const Frequencies few = frequencies(phi3, LongRopeRegime::Short);
  const Frequencies many = frequencies(phi3, LongRopeRegime::Long);
  CHECK(few != many);
  for (const Index length : {0, 1, 4095, 4096}) CHECK(frequencies(phi3, length) == few);
  for (const Index length : {4097, 131072, 1 << 30}) CHECK(frequencies(phi3, length) == many);
  // An earlier call with another length has no effect.
  CHECK(frequencies(phi3, 10) == few);
}

TEST_CASE("each regime divides by its list", "[longrope]") {
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

TEST_CASE("the attention factor of both regimes", "[longrope]") {
  // Phi-3: sqrt(1 + ln 32 / ln 4096)
  CHECK(frequencies(phi3, 0).attention_factor() == Approx(1.19024).margin(5e-6));
  CHECK(frequencies(phi3, 5000).attention_factor() == frequencies(phi3, 0).attention_factor());

  LongRopeScaling given = phi3;
  given.factor.reset();
  given.attention_factor = 1.5;
  CHECK(frequencies(given, 0).attention_factor() == 1.5);
  CHECK(frequencies(given, 5000).attention_factor() == 1.5);
}

TEST_CASE("an attention factor for each regime", "[longrope]") {
  LongRopeScaling phimoe = phi3;
  phimoe.factor.reset();
  phimoe.short_mscale = 1.25;
  phimoe.long_mscale = 1.375;
  CHECK(frequencies(phimoe, 4096).attention_factor() == 1.25);
  CHECK(frequencies(phimoe, 4097).attention_factor() == 1.375);
}

}  // namespace longrope_test
