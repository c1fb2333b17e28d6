// SPDX-License-Identifier: MIT
// Rules whose fields mean in config.json what they mean here come back as they were written.
#include "frequency/random_rules.hpp"
#include "support/catch.hpp"
#include <posenc/interop/hf_rules.hpp>
#include <posenc/interop/rotary_settings.hpp>

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

using nlohmann::json;

namespace {

/// The dict of a rule: each field under its name, but for what stands outside of the dict.
template <class Rule>
json dict_of(const std::string& type, const Rule& rule) {
  json dict = {{"rope_type", type}};
  for_each_field(rule, [&dict]<class T>(std::string name, const T& field) {
    if (name == "rotary_dim" || name == "head_dim" || name == "base") return;
    if (name == "original_max_position") name += "_embeddings";
    if constexpr (std::is_same_v<T, std::optional<double>>) {
      if (field) dict[name] = *field;
    } else if constexpr (!std::is_enum_v<T>) {
      dict[name] = field;
    }
  });
  return dict;
}

/// The field of each name is the same; enumerations are the reader's, not the file's.
template <class Rule>
void check_fields(const Rule& read, const Rule& written) {
  posenc::RuleDescription<Rule>::fields([&](const char* name, auto member) {
    using Field = std::remove_cvref_t<decltype(read.*member)>;
    CAPTURE(name);
    if constexpr (!std::is_enum_v<Field>) CHECK(read.*member == written.*member);
  });
}

template <class Rule>
void check_type(const std::string& type) {
  CAPTURE(type);
  support::Random random(29);
  for (int i = 0; i < 8; ++i) {
    const auto rule = random_rules::drawn<Rule>(random);
    const auto width = posenc::detail::rotary_dim_of(rule);
    posenc::detail::HfRuleContext context{
        .head_dim = width, .rotary_dim = width, .base = rule.base, .softmax_mscale = true};
    json dict = dict_of(type, rule);
    // Whoever calls the reader has read it.
    if (const auto share = dict.find("partial_rotary_factor"); share != dict.end()) {
      context.partial_rotary_factor = share->template get<double>();
      dict.erase(share);
    }
    const auto read =
        posenc::detail::hf_rule(posenc::detail::JsonKeys(dict, "rope_parameters"), context);
    REQUIRE(std::holds_alternative<Rule>(read));
    check_fields(std::get<Rule>(read), rule);
  }
}

}  // namespace

TEST_CASE("rules come back from config.json field by field", "[interop]") {
  check_type<posenc::Unscaled>("default");
  check_type<posenc::LinearScaling>("linear");
  check_type<posenc::VllmNtkScaling>("ntk");
  check_type<posenc::VllmMixedNtkScaling>("ntk");
  check_type<posenc::AlphaNtkScaling>("dynamic");
  check_type<posenc::YarnScaling>("yarn");
  check_type<posenc::LongRopeScaling>("longrope");
  check_type<posenc::Llama3Scaling>("llama3");
  check_type<posenc::ProportionalScaling>("proportional");
}
