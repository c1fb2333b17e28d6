// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <type_traits>

POSENC_BEGIN

/// The name of a rule and of its fields. Each rule specialises this beside its struct; error messages,
/// readers of files, tools and tests take the names from here.
///   name        the struct's own
///   fields(f)   calls f(name, pointer to member) for every field, in their order
template <class Rule>
struct RuleDescription;

/// Calls f(name, field) for every field of a rule, in their order; `field` refers to the rule's own.
template <class Rule, class F>
constexpr void for_each_field(Rule& rule, const F& f) {
  RuleDescription<std::remove_const_t<Rule>>::fields(
      [&rule, &f](const char* name, auto member) { f(name, rule.*member); });
}

POSENC_END
