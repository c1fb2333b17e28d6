// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <type_traits>

POSENC_BEGIN

namespace detail {

/// A vector, an array or a span of T, const or not. Its data() says so; what std::span asks of a range takes a
/// compiler far longer, for each T anew.
template <class Range, class T>
concept ListOf = requires(const Range& range) {
  requires std::same_as<std::remove_cv_t<std::remove_pointer_t<decltype(std::data(range))>>, T>;
  std::begin(range);
  std::size(range);
};

}  // namespace detail

/// Elements that a call reads: those of a vector, an array or a span, from a pointer on, or of a list
/// written in place, {0, 2}. For parameters alone: it owns nothing, and a list written in place ends with the call.
template <class T>
class ListView : public std::span<const T> {
 public:
  constexpr ListView() noexcept = default;
  constexpr ListView(std::initializer_list<T> list) noexcept
      : std::span<const T>(list.begin(), list.size()) {}
  constexpr ListView(const T* first, std::size_t count) noexcept
      : std::span<const T>(first, count) {}
  template <class Range>
  requires(!std::same_as<Range, ListView> &&
           detail::ListOf<Range, T>) constexpr ListView(const Range& range)
      : std::span<const T>(std::data(range), std::size(range)) {}
};

POSENC_END
