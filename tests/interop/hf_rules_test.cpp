// SPDX-License-Identifier: MIT
// A rule that is written into a dict field by field is read back unchanged.
#include "frequency/random_rules.hpp"
#include "support/catch.hpp"
#include <posenc/interop/detail/hf_rules.hpp>
#include <posenc/interop/rotary_settings.hpp>

#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <tuple>
#include <type_traits>

namespace hf_rules_test {

using nlohmann::json;

namespace {

/// Returns the dict of a rule: each field under its name, except values that stand outside of the
/// dict.
template <class Rule>
json dict_of(const std::string& type, const Rule& rule) {
  json dict = {{"rope_type", type}};
  for_each_field(rule, [&dict]<class T>(std::string name, const T& field) {
    if (name == "rotary_dim" || name == "head_dim" || name == "base") return;
    if (name == "original_max_position") name += "_embeddings";
    if constexpr (requires { field.has_value(); }) {
      if (field) dict[name] = *field;
    } else if constexpr (!std::is_enum_v<T>) {
      dict[name] = field;
    }
  });
  return dict;
}

/// Checks that fields of the same name are equal. Enumerations are chosen by the reader, not by the
/// file.
template <class Rule>
void check_fields(const Rule& read, const Rule& written) {
  posenc::RuleDescription<Rule>::fields([&](const char* name, auto member) {
    using Field = std::remove_cvref_t<decltype(read.*member)>;
    CAPTURE(name);
    if constexpr (!std::is_enum_v<Field>) CHECK(read.*member == written.*member);
  });
}

/// Returns the result of reading a rule from a dict of this type.
template <class Rule>
posenc::RotaryRule read_back(const std::string& type, const Rule& rule) {
  const auto width = posenc::detail::rotary_dim_of(rule);
  posenc::detail::HfRuleContext context{
      .full_rotary_dim = width, .rotary_dim = width, .base = rule.base, .softmax_mscale = true};
  if constexpr (requires { rule.original_max_position; }) {
    context.max_position = rule.original_max_position;
  }
  json dict = dict_of(type, rule);
  // The caller of the reader has read this key.
  if (const auto share = dict.find("partial_rotary_factor"); share != dict.end()) {
    context.partial_rotary_factor = share->template get<double>();
    dict.erase(share);
  }
  const auto converted = posenc::detail::json_of(dict);
  return posenc::detail::hf_rule(posenc::detail::JsonKeys(converted, "rope_parameters"), context);
}

/// Checks all types of scaling that give such a rule: its fields must be those that were written.
template <class Rule>
std::set<std::string> types_of() {
  std::set<std::string> types;
  support::Random random(29);
  for (int i = 0; i < 8; ++i) {
    const auto rule = random_rules::drawn<Rule>(random);
    for (const auto& type : posenc::detail::hf_rule_types) {
      const std::string name(type.name);
      CAPTURE(name, i);
      try {
        const auto read = read_back(name, rule);
        if (!std::holds_alternative<Rule>(read)) continue;
        check_fields(std::get<Rule>(read), rule);
        types.insert(name);
      } catch (const posenc::ConfigError&) {
        continue;  // fields that this type does not have
      }
    }
  }
  return types;
}

}  // namespace

TEST_CASE("read_hf_config rules: every rule comes back field by field, under every type",
          "[interop]") {
  std::set<std::string> reached, all;
  std::apply(
      [&reached]<class... Rules>(const Rules&...) { (reached.merge(types_of<Rules>()), ...); },
      random_rules::All{});
  for (const auto& type : posenc::detail::hf_rule_types) all.emplace(type.name);
  reached.insert("dynamic-yarn");    // its dict has only one field of the rule
  reached.insert("telechat3-yarn");  // its magnitude is not a field of the rule
  CHECK(reached == all);
  CHECK(types_of<posenc::Llama3Scaling>() == std::set<std::string>{"llama3"});
  CHECK(types_of<posenc::DynamicNtkScaling>() == std::set<std::string>{"dynamic"});
}

}  // namespace hf_rules_test
