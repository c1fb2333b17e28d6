// SPDX-License-Identifier: MIT
// A rule that is written into a GGUF file number by number is read back unchanged.
#include "frequency/random_rules.hpp"
#include "interop/gguf_writer.hpp"
#include "support/catch.hpp"
#include <posenc/interop/detail/gguf_rules.hpp>
#include <posenc/interop/gguf.hpp>
#include <posenc/interop/gguf_options.hpp>

#include <set>
#include <string>
#include <tuple>
#include <type_traits>

namespace gguf_options_test {

using posenc::Index;

namespace {

/// Returns the key of a field in a file with this type of scaling, or an empty string if such files
/// have none.
std::string key_of(const std::string& type, const std::string& name) {
  if (name == "factor") return "rope.scaling.factor";
  if (name == "original_max_position") return "rope.scaling.original_context_length";
  std::string key = "rope.scaling.";
  key.append(type).append("_").append(name);
  return posenc::detail::gguf_is_type_key(key) ? key : "";
}

/// Returns a file with the rule's numbers as floats, and rounds the rule to these.
template <class Rule>
support::GgufWriter file_of(const std::string& type, Rule& rule) {
  support::GgufWriter writer;
  const auto width = static_cast<std::uint32_t>(posenc::detail::rotary_dim_of(rule));
  rule.base = static_cast<double>(static_cast<float>(rule.base));
  writer.architecture("qwen2")
      .integer("qwen2.context_length", 4096)
      .integer("qwen2.attention.key_length", width)
      .real("qwen2.rope.freq_base", static_cast<float>(rule.base))
      .text("qwen2.rope.scaling.type", type);
  for_each_field(rule, [&]<class T>(const char* name, T& field) {
    std::string key = key_of(type, name);
    if (key.empty()) return;
    key.insert(0, "qwen2.");
    if constexpr (std::is_same_v<T, double>) {
      const auto rounded = static_cast<float>(field);
      field = static_cast<double>(rounded);
      writer.real(key, rounded);
    } else if constexpr (std::is_same_v<T, Index>) {
      writer.integer(key, static_cast<std::uint32_t>(field));
    }
  });
  return writer;
}

/// Checks all types of scaling that give such a rule: its numbers must be those that were written.
template <class Rule>
std::set<std::string> types_of() {
  std::set<std::string> types;
  support::Random random(31);
  for (const auto& row : posenc::detail::gguf_rule_types) {
    const std::string name(row.names);
    CAPTURE(name);
    auto rule = random_rules::drawn<Rule>(random);
    const auto bytes = file_of(name, rule).bytes();
    try {
      const auto model = posenc::read_gguf(bytes);
      const auto* read = std::get_if<Rule>(&rotary(model).rule);
      if (read == nullptr) continue;
      posenc::RuleDescription<Rule>::fields([&](const std::string& field, auto member) {
        CAPTURE(field);
        if (field == "base" || field == "rotary_dim" || !key_of(name, field).empty()) {
          CHECK(read->*member == rule.*member);
        }
      });
      types.insert(name);
    } catch (const posenc::ConfigError&) {
      continue;  // fields that this type does not have
    }
  }
  return types;
}

/// Returns the fields of a rule, besides width and base, for which files of a type of scaling have no
/// key.
template <class Rule>
std::set<std::string> fields_without_key(const std::string& type) {
  std::set<std::string> fields;
  posenc::RuleDescription<Rule>::fields([&](const std::string& field, auto) {
    if (field != "base" && field != "rotary_dim" && key_of(type, field).empty()) {
      fields.insert(field);
    }
  });
  return fields;
}

}  // namespace

TEST_CASE("read_gguf rules: every field of a rule has a key, or is listed here",
          "[interop][gguf]") {
  CHECK(fields_without_key<posenc::Unscaled>("none").empty());
  CHECK(fields_without_key<posenc::LinearScaling>("linear").empty());
  // The architecture has the rounding of the ramp, and ggml one order of its ends. The factor of
  // cos and sin and mscale_all_dim follow from other keys; no file has mscale.
  CHECK(fields_without_key<posenc::YarnScaling>("yarn") ==
        std::set<std::string>{"attention_factor", "crossing", "mscale", "mscale_all_dim",
                              "truncate"});
}

TEST_CASE("read_gguf rules: every rule comes back number by number, under every type",
          "[interop][gguf]") {
  std::set<std::string> reached, all;
  std::apply(
      [&reached]<class... Rules>(const Rules&...) { (reached.merge(types_of<Rules>()), ...); },
      random_rules::All{});
  for (const auto& type : posenc::detail::gguf_rule_types) all.emplace(type.names);
  reached.insert("longrope");  // its numbers are in tensors
  CHECK(reached == all);
  CHECK(types_of<posenc::YarnScaling>() == std::set<std::string>{"yarn"});
}

}  // namespace gguf_options_test
