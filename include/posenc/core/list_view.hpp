// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <vector>

POSENC_BEGIN

/// A read-only list parameter, made from a vector, an array, a span, a pointer and a count, or a
/// braced list such as {0, 2}. Use it for parameters only: it owns nothing, and a braced list lives
/// only until the end of the call.
template <class T>
class ListView {
 public:
  /// Constructs an empty list.
  constexpr ListView() noexcept = default;
  /// Views a braced list, which lives only until the end of the call.
  constexpr ListView(std::initializer_list<T> list) noexcept
      : ListView(list.begin(), list.size()) {}
  /// Views the `count` values from `first` on.
  constexpr ListView(const T* first, std::size_t count) noexcept : first_(first), count_(count) {}
  /// Views a vector. Separate from other ranges, because the constraints of std::span compile
  /// slowly for every T.
  constexpr ListView(const std::vector<T>& list) noexcept : ListView(list.data(), list.size()) {}
  /// Views any other range that converts to std::span<const T>.
  template <class Range>
  requires(
      !std::same_as<Range, ListView> && !std::same_as<Range, std::vector<T>> &&
      std::convertible_to<const Range&, std::span<const T>>) constexpr ListView(const Range& range)
      : ListView(std::span<const T>(range).data(), std::span<const T>(range).size()) {}

  /// Returns the address of the first value.
  constexpr const T* data() const noexcept { return first_; }
  /// Returns the number of values.
  constexpr std::size_t size() const noexcept { return count_; }
  /// True if there are no values.
  constexpr bool empty() const noexcept { return count_ == 0; }
  /// Returns an iterator to the first value.
  constexpr const T* begin() const noexcept { return first_; }
  /// Returns an iterator past the last value.
  constexpr const T* end() const noexcept { return first_ + count_; }
  /// Returns value n; n is not checked.
  constexpr const T& operator[](std::size_t n) const noexcept { return first_[n]; }
  /// Returns the first value. The list must not be empty.
  constexpr const T& front() const noexcept { return first_[0]; }
  /// Returns the last value. The list must not be empty.
  constexpr const T& back() const noexcept { return first_[count_ - 1]; }

 private:
  const T* first_ = nullptr;
  std::size_t count_ = 0;
};

POSENC_END
