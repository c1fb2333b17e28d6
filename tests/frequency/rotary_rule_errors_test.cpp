// SPDX-License-Identifier: MIT
// Lengths that rules reject, and rules without settings. The tests of each rule check its fields.
#include "support/catch.hpp"
#include <posenc/frequency/rotary_rule.hpp>

#include <string>

namespace rotary_rule_errors_test {

using namespace posenc;  // NOLINT: every rule there is

TEST_CASE("RotaryRule: lengths must not be negative", "[rules]") {
  const auto check = [](const auto& rule, const std::string& name) {
    CHECK_NOTHROW(frequencies(rule, 0));
    CHECK_THROWS_MATCHES(frequencies(rule, -1), PositionError,
                         Catch::Matchers::Message("posenc::" + name +
                                                  ": the length must not be negative but is -1"));
  };
  check(
      DynamicNtkScaling{.rotary_dim = 8, .base = 10000, .factor = 1, .original_max_position = 2048},
      "DynamicNtkScaling");
  check(DynamicYarnScaling{.rotary_dim = 8, .base = 10000, .original_max_position = 2048},
        "DynamicYarnScaling");
  check(LongRopeScaling{.rotary_dim = 2,
                        .base = 10000,
                        .short_factor = {1},
                        .long_factor = {2},
                        .original_max_position = 2048,
                        .factor = 2},
        "LongRopeScaling");
}

TEST_CASE("RotaryRule: without settings, errors name what is missing", "[rules]") {
  CHECK_THROWS_AS(frequencies(Unscaled{}), ConfigError);
  CHECK_THROWS_AS(frequencies(LinearScaling{.rotary_dim = 8, .base = 10000}), ConfigError);
  CHECK_THROWS_AS(frequencies(YarnScaling{.rotary_dim = 8, .base = 10000, .factor = 2}),
                  ConfigError);
}

}  // namespace rotary_rule_errors_test
