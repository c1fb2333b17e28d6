// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

POSENC_BEGIN

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
  // Apart from other ranges: what std::span asks of them costs a compiler much for each T anew.
  constexpr ListView(const std::vector<T>& list) noexcept
      : std::span<const T>(list.data(), list.size()) {}
  template <class Range>
  requires(
      !std::same_as<Range, ListView> && !std::same_as<Range, std::vector<T>> &&
      std::convertible_to<const Range&, std::span<const T>>) constexpr ListView(const Range& range)
      : std::span<const T>(range) {}
};

POSENC_END
