// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

// Diagnostics for calls that match no overload. Beside the real overloads stands
//   template <class...> void f(detail::RefusedCall<Rule>, ...);
// It loses overload resolution against every overload that matches. It accepts all else, also
// braces with a field that no parameter has, and the static_assert of its rule states what f()
// accepts.
POSENC_BEGIN
namespace detail {

/// An argument of any type.
struct AnyArgument {
  template <class T>
  constexpr AnyArgument(const T&) noexcept {}  // NOLINT: converts from every type
};

/// A false that depends on template arguments. A static_assert of it fails only if its template is
/// instantiated.
template <class...>
inline constexpr bool dependent_false = false;

/// First parameter of a diagnostic overload: an argument of any type, or several in braces. Rule
/// has a function refuse<T...>() with a static_assert. Compilers evaluate it for the exception
/// specification, before they look at the other arguments.
template <class Rule>
struct RefusedCall {
  template <class... T>
  requires(sizeof...(T) > 0) constexpr RefusedCall(const T&...) noexcept(  // NOLINT: converts
      Rule::template refuse<T...>()) {}
};

/// The rule of a diagnostic overload, with the message of its static_assert.
#define POSENC_DETAIL_CALL_RULE(name, message)                         \
  struct name {                                                        \
    template <class... T>                                              \
    static constexpr bool refuse() {                                   \
      static_assert(::posenc::detail::dependent_false<T...>, message); \
      return false;                                                    \
    }                                                                  \
  }

}  // namespace detail
POSENC_END
