// SPDX-License-Identifier: MIT
// The Frequencies value, and user-defined rules.
#include "support/catch.hpp"
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/longrope.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/rotary/rope.hpp>

#include <array>
#include <limits>
#include <type_traits>
#include <vector>

namespace frequencies_test {

using Catch::Matchers::Message;
using posenc::ConfigError;
using posenc::Frequencies;
using posenc::detail::DoubleDouble;
using posenc::detail::exact_frequencies;

namespace user {

/// A rule whose frequencies halve from pair to pair.
struct Octaves {
  posenc::Index pairs = 0;
};

Frequencies frequencies(const Octaves& rule) {
  std::vector<double> inv_freq;
  double w = 1;
  for (posenc::Index i = 0; i < rule.pairs; ++i, w /= 2) inv_freq.push_back(w);
  return Frequencies::from_inv_freq(inv_freq, 1.5);
}

struct NotARule {};

}  // namespace user

TEST_CASE("Frequencies: a double is taken as exact", "[frequencies]") {
  const std::vector<double> given{1.0, 0.1, -0.25, 0.0, 1e-300};
  const Frequencies f = Frequencies::from_inv_freq(given, 1.25);
  CHECK(f.pairs() == 5);
  CHECK(f.rotary_dim() == 10);
  CHECK(f.inv_freq() == given);
  for (std::size_t i = 0; i < given.size(); ++i) {
    CHECK(posenc::detail::exact_inv_freq(f)[i] == DoubleDouble(given[i]));
  }
  CHECK(f.attention_factor() == 1.25);
  CHECK(f.softmax_scale_multiplier() == 1);
}

TEST_CASE("Frequencies: are values", "[frequencies]") {
  const std::vector<DoubleDouble> w{{1.0, 0x1p-60}, 0.5};
  const Frequencies f = exact_frequencies(w, 1, 2.5);
  CHECK(f.softmax_scale_multiplier() == 2.5);
  CHECK(f.inv_freq() == std::vector<double>{1.0, 0.5});
  const Frequencies copy = f;
  CHECK(copy == f);
  CHECK(copy != exact_frequencies(w));
  CHECK(exact_frequencies(w) != Frequencies::from_inv_freq({1.0, 0.5}));
  CHECK(Frequencies::from_inv_freq({}).pairs() == 0);
}

TEST_CASE("Frequencies: and factors must be finite and positive where rules ask it",
          "[frequencies]") {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
  const auto of = [](double w) { return Frequencies::from_inv_freq({1.0, w}); };
  CHECK_THROWS_MATCHES(
      of(infinity), ConfigError,
      Message("posenc::Frequencies: every inv_freq must be finite but one is inf"));
  CHECK_THROWS_AS(of(not_a_number), ConfigError);
  CHECK_THROWS_MATCHES(
      Frequencies::from_inv_freq({1.0}, 0), ConfigError,
      Message("posenc::Frequencies: attention_factor must be positive and finite but is 0"));
  for (const double bad : {-1.0, infinity, not_a_number}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(Frequencies::from_inv_freq({1.0}, bad), ConfigError);
    CHECK_THROWS_AS(Frequencies::from_inv_freq({1.0}, 1, bad), ConfigError);
    CHECK_THROWS_AS(Frequencies::from_inv_freq(std::array{1.0}, bad), ConfigError);
  }
  CHECK_THROWS_MATCHES(Frequencies::from_inv_freq({1.0}, 1, -2), ConfigError,
                       Message("posenc::Frequencies: softmax_scale_multiplier must be positive and "
                               "finite but is -2"));
}

TEST_CASE("Frequencies: bounds that rules share", "[frequencies][errors]") {
  namespace detail = posenc::detail;
  for (const double factor : {1e-25, 1.0, 1e25}) {
    CHECK_NOTHROW(detail::check_attention_factor("f", factor));
  }
  for (const double factor : {0.0, -1.0, 9e-26, 1.1e25}) {
    CHECK_THROWS_AS(detail::check_attention_factor("f", factor), ConfigError);
  }
  for (const posenc::Index head_dim : {posenc::Index{4}, posenc::Index{12}, detail::max_channels}) {
    CHECK_NOTHROW(detail::check_head_of_two_halves("f", head_dim));
  }
  for (const posenc::Index head_dim :
       {posenc::Index{0}, posenc::Index{-4}, posenc::Index{6}, detail::max_channels + 4}) {
    CHECK_THROWS_AS(detail::check_head_of_two_halves("f", head_dim), ConfigError);
  }
}

TEST_CASE("FrequencyRule: a struct with a function beside it", "[frequencies]") {
  STATIC_REQUIRE(posenc::FrequencyRule<posenc::Unscaled>);
  STATIC_REQUIRE(posenc::FrequencyRule<posenc::LinearScaling>);
  STATIC_REQUIRE(posenc::FrequencyRule<posenc::NtkScaling>);
  STATIC_REQUIRE(posenc::FrequencyRule<posenc::YarnScaling>);
  STATIC_REQUIRE(posenc::FrequencyRule<user::Octaves>);
  STATIC_REQUIRE(!posenc::FrequencyRule<user::NotARule>);
  // These rules depend on the length, so a length must be given.
  STATIC_REQUIRE(!posenc::FrequencyRule<posenc::DynamicNtkScaling>);
  STATIC_REQUIRE(posenc::LengthFrequencyRule<posenc::DynamicNtkScaling>);
  STATIC_REQUIRE(!posenc::FrequencyRule<posenc::LongRopeScaling>);
  STATIC_REQUIRE(posenc::LengthFrequencyRule<posenc::LongRopeScaling>);
  STATIC_REQUIRE(!posenc::LengthFrequencyRule<posenc::YarnScaling>);
}

TEST_CASE("FrequencyRule: Rope takes a rule of the user's own", "[frequencies]") {
  const posenc::Rope<posenc::Interleaved> rope(user::Octaves{.pairs = 3}, 2);
  CHECK(rope.rotary_dim() == 6);
  CHECK(rope.rotary_offset() == 2);
  CHECK(rope.frequencies().inv_freq() == std::vector<double>{1.0, 0.5, 0.25});
  CHECK(rope.frequencies().attention_factor() == 1.5);
}

}  // namespace frequencies_test
