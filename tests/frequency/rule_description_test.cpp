// SPDX-License-Identifier: MIT
// Descriptions of rules agree with their structs and their error messages.
#include "frequency/random_rules.hpp"
#include "support/catch.hpp"
#include <posenc/core/error.hpp>
#include <posenc/frequency/rule_description.hpp>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

namespace rule_description_test {

using posenc::Index;
using posenc::RuleDescription;

namespace {

template <class>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

/// A value that converts to any field type; an optional is constructed from its value type.
struct AnyValue {
  template <class T>
  requires(!is_optional<T>) operator T() const {  // NOLINT: a value of whatever is asked for
    return T{};
  }
};

/// Counts the fields of a struct: the largest number of values that can initialise it.
template <class T, class... Values>
constexpr int field_count() {
  if constexpr (requires { T{Values{}..., AnyValue{}}; }) {
    return field_count<T, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

template <class Rule>
constexpr int described_fields() {
  int count = 0;
  RuleDescription<Rule>::fields([&count](const char*, auto) { ++count; });
  return count;
}

std::string message_of(const posenc::RotaryRule& rule) {
  try {
    std::visit(
        []<class Rule>(const Rule& r) {
          if constexpr (!std::is_same_v<Rule, std::monostate>) random_rules::evaluate(r, 1);
        },
        rule);
  } catch (const posenc::ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("RuleDescription: has every field of its rule, under a name of its own",
                        "[rules]", random_rules::All) {
  STATIC_REQUIRE(described_fields<TestType>() == field_count<TestType>());
  std::set<std::string> names;
  TestType rule;
  std::vector<const void*> places;
  for_each_field(rule, [&](const char* name, auto& field) {
    names.insert(name);
    places.push_back(&field);
  });
  constexpr int fields = field_count<TestType>();
  CHECK(static_cast<int>(names.size()) == fields);
  CHECK(std::is_sorted(places.begin(), places.end()));
  CHECK(std::adjacent_find(places.begin(), places.end()) == places.end());
}

TEMPLATE_LIST_TEST_CASE(
    "RuleDescription: a field without a default is required, and its error names rule and field",
    "[rules]", random_rules::All) {
  support::Random random(17);
  const auto rule = random_rules::drawn<TestType>(random);
  CHECK(message_of(rule) == "");
  RuleDescription<TestType>::fields([&rule](const std::string& name, auto member) {
    using Field = std::remove_cvref_t<decltype(rule.*member)>;
    constexpr bool is_list = std::is_same_v<Field, std::vector<double>>;
    if constexpr (std::is_same_v<Field, Index> || std::is_same_v<Field, double> || is_list) {
      if (TestType{}.*member != Field{}) return;
      TestType lacking = rule;
      lacking.*member = {};
      const std::string message = message_of(lacking);
      CAPTURE(name, message);
      CHECK(message.rfind(std::string("posenc::") + RuleDescription<TestType>::name + ": ", 0) ==
            0);
      CHECK(message.find(name) != std::string::npos);
    }
  });
}

}  // namespace rule_description_test
