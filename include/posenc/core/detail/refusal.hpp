// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

// Calls that fit no function are answered in words: beside the functions of a name stands one of Anything,
// which loses against every one that fits, and whose static_assert says what is wanted.
POSENC_BEGIN
namespace detail {

/// An argument of any kind.
struct Anything {
  template <class T>
  constexpr Anything(const T&) noexcept {}  // NOLINT: made from whatever was given
};

/// Several of any kind in braces.
struct AnythingBraced {
  template <class... T>
  requires(sizeof...(T) > 1) constexpr AnythingBraced(const T&...) noexcept {
  }  // NOLINT: made from whatever was given
};

/// false, where a template is used.
template <class...>
inline constexpr bool never = false;

}  // namespace detail
POSENC_END
