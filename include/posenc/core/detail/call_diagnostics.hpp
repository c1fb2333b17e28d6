// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

// Diagnostics for calls that match no overload. Beside the real overloads stands one that takes
// AnyArgument. It loses overload resolution against every overload that matches, and its static_assert
// states what the function accepts.
POSENC_BEGIN
namespace detail {

/// An argument of any type.
struct AnyArgument {
  template <class T>
  constexpr AnyArgument(const T&) noexcept {}  // NOLINT: converts from every type
};

/// Two or more arguments of any types in braces.
struct AnyBracedArguments {
  template <class... T>
  requires(sizeof...(T) > 1) constexpr AnyBracedArguments(const T&...) noexcept {
  }  // NOLINT: converts from every list
};

/// A false that depends on template arguments. A static_assert of it fails only if its template is
/// instantiated.
template <class...>
inline constexpr bool dependent_false = false;

}  // namespace detail
POSENC_END
