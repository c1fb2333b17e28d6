// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

// Diagnostics for calls that match no overload. Beside the real overloads stands one that takes
// Anything. It loses overload resolution against every overload that matches, and its static_assert
// states what the function accepts.
POSENC_BEGIN
namespace detail {

/// An argument of any type.
struct Anything {
  template <class T>
  constexpr Anything(const T&) noexcept {}  // NOLINT: converts from every type
};

/// Two or more arguments of any types in braces.
struct AnythingBraced {
  template <class... T>
  requires(sizeof...(T) > 1) constexpr AnythingBraced(const T&...) noexcept {
  }  // NOLINT: converts from every list
};

/// A false that depends on template arguments. A static_assert of it fails only if its template is
/// instantiated.
template <class...>
inline constexpr bool never = false;

}  // namespace detail
POSENC_END
