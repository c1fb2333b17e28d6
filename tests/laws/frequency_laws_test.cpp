// SPDX-License-Identifier: MIT
// Laws of frequency rules, for every rule of the library with random settings.
#include "laws/frequency_laws.hpp"

#include "frequency/random_rules.hpp"
#include "support/catch.hpp"

#include <array>
#include <tuple>
#include <type_traits>

namespace frequency_laws_test {

using posenc::Frequencies;
using posenc::Index;
using random_rules::All;
using random_rules::drawn;
using random_rules::evaluate;

namespace {

constexpr int draws = 32;

/// Returns a length within the trained length, if the rule has one.
template <class Rule>
Index short_length(const Rule& rule, support::Random& random) {
  if constexpr (requires { rule.original_max_position; }) {
    return random.integer(0, rule.original_max_position);
  } else {
    return 0;
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("frequency laws: frequencies are positive and fall from pair to pair",
                        "[laws]", All) {
  support::Random random(101);
  for (int i = 0; i < draws; ++i) {
    const auto rule = drawn<TestType>(random);
    const Index length = random.integer(0, 1 << 20);
    CAPTURE(i, length);
    const Frequencies found = evaluate(rule, length);
    laws::check_falling(found);
    if constexpr (!std::is_same_v<TestType, posenc::ProportionalScaling>) {
      CHECK(found.inv_freq().back() > 0);  // no pair is without rotation
    }
  }
}

TEMPLATE_LIST_TEST_CASE("frequency laws: factor 1 is the identity", "[laws]", All) {
  support::Random random(103);
  for (int i = 0; i < draws; ++i) {
    auto rule = drawn<TestType>(random);
    laws::neutralise(rule);
    CAPTURE(i);
    laws::check_unscaled(evaluate(rule, short_length(rule, random)), rule.base);
  }
}

TEMPLATE_TEST_CASE("frequency laws: up to the trained length dynamic rules are plain ones",
                   "[laws]", posenc::DynamicNtkScaling, posenc::DynamicYarnScaling,
                   posenc::LongRopeScaling) {
  support::Random random(107);
  for (int i = 0; i < draws; ++i) {
    auto rule = drawn<TestType>(random);
    if constexpr (requires { rule.finetuned_max_position; }) {
      // The factor must be a double, because that of the plain rule is one.
      if (rule.finetuned_max_position) {
        rule.finetuned_max_position = 4 * rule.original_max_position;
      }
    }
    for (const Index length : {Index{0}, short_length(rule, random), rule.original_max_position}) {
      CAPTURE(i, length);
      CHECK(frequencies(rule, length) == laws::plain(rule));
    }
    CHECK(frequencies(rule, 5 * rule.original_max_position) != laws::plain(rule));
  }
}

TEST_CASE("frequency laws: every rule that depends on the length has a plain one", "[laws]") {
  const auto has_plain = []<class Rule>(const Rule& rule) {
    return !posenc::LengthFrequencyRule<Rule> || requires { laws::plain(rule); };
  };
  std::apply([&](const auto&... rules) { CHECK((has_plain(rules) && ...)); }, All{});
}

TEST_CASE("frequency laws: catch a frequency that rises", "[laws][!shouldfail]") {
  laws::check_falling(Frequencies::from_inv_freq(std::array{1.0, 0.5, 0.7}));
}

TEST_CASE("frequency laws: catch a frequency that is negative", "[laws][!shouldfail]") {
  laws::check_falling(Frequencies::from_inv_freq(std::array{1.0, -0.5}));
}

TEST_CASE("frequency laws: catch a nonzero frequency after a zero one", "[laws][!shouldfail]") {
  laws::check_falling(Frequencies::from_inv_freq(std::array{1.0, 0.0, 0.5}));
}

TEST_CASE("frequency laws: catch an attention factor that does not return to 1",
          "[laws][!shouldfail]") {
  laws::check_unscaled(Frequencies::from_inv_freq(std::array{1.0, 0.01}, 1.25), 10000);
}

}  // namespace frequency_laws_test
