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

// Specialises RuleDescription for a rule with up to 27 fields, listed in order of declaration.
#define POSENC_DETAIL_DESCRIBE_RULE(Rule, ...)                         \
  template <>                                                          \
  struct RuleDescription<Rule> {                                       \
    static constexpr auto name = #Rule;                                \
    template <class F>                                                 \
    static constexpr void fields(const F& f) {                         \
      using R = Rule;                                                  \
      POSENC_DETAIL_RESCAN(POSENC_DETAIL_DESCRIBE_FIELDS(__VA_ARGS__)) \
    }                                                                  \
  }
// A macro is not expanded within itself. Each scan of the text expands it once more.
#define POSENC_DETAIL_DESCRIBE_FIELDS(field, ...) \
  f(#field, &R::field);                           \
  __VA_OPT__(POSENC_DETAIL_MORE_FIELDS POSENC_DETAIL_NO_ARGUMENTS(__VA_ARGS__))
#define POSENC_DETAIL_MORE_FIELDS() POSENC_DETAIL_DESCRIBE_FIELDS
#define POSENC_DETAIL_NO_ARGUMENTS ()
#define POSENC_DETAIL_RESCAN(...) \
  POSENC_DETAIL_RESCAN_9(POSENC_DETAIL_RESCAN_9(POSENC_DETAIL_RESCAN_9(__VA_ARGS__)))
#define POSENC_DETAIL_RESCAN_9(...) \
  POSENC_DETAIL_RESCAN_3(POSENC_DETAIL_RESCAN_3(POSENC_DETAIL_RESCAN_3(__VA_ARGS__)))
#define POSENC_DETAIL_RESCAN_3(...) \
  POSENC_DETAIL_RESCAN_1(POSENC_DETAIL_RESCAN_1(POSENC_DETAIL_RESCAN_1(__VA_ARGS__)))
#define POSENC_DETAIL_RESCAN_1(...) __VA_ARGS__

/// Calls f(name, field) for every field of `rule`, in order of declaration. `field` is a reference
/// into `rule`.
template <class Rule, class F>
constexpr void for_each_field(Rule& rule, const F& f) {
  RuleDescription<std::remove_const_t<Rule>>::fields(
      [&rule, &f](const char* name, auto member) { f(name, rule.*member); });
}

POSENC_END
