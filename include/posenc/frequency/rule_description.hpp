// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <type_traits>

POSENC_BEGIN

/// The names of a rule and of its fields. Each rule specialises this template beside its struct.
/// Error messages, file readers, tools and tests take the names from here.
///   name        the name of the struct
///   fields(f)   calls f(name, pointer to member) for every field, in order of declaration
template <class Rule>
struct RuleDescription;

/// Calls f(name, field) for every field of `rule`, in order of declaration. `field` is a reference
/// into `rule`.
template <class Rule, class F>
constexpr void for_each_field(Rule& rule, const F& f) {
  RuleDescription<std::remove_const_t<Rule>>::fields(
      [&rule, &f](const char* name, auto member) { f(name, rule.*member); });
}

POSENC_END
