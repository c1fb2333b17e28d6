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
  constexpr ListView() noexcept = default;
  constexpr ListView(std::initializer_list<T> list) noexcept
      : ListView(list.begin(), list.size()) {}
  constexpr ListView(const T* first, std::size_t count) noexcept : first_(first), count_(count) {}
  // Separate from other ranges, because the constraints of std::span compile slowly for every T.
  constexpr ListView(const std::vector<T>& list) noexcept : ListView(list.data(), list.size()) {}
  template <class Range>
  requires(
      !std::same_as<Range, ListView> && !std::same_as<Range, std::vector<T>> &&
      std::convertible_to<const Range&, std::span<const T>>) constexpr ListView(const Range& range)
      : ListView(std::span<const T>(range).data(), std::span<const T>(range).size()) {}

  constexpr const T* data() const noexcept { return first_; }
  constexpr std::size_t size() const noexcept { return count_; }
  constexpr bool empty() const noexcept { return count_ == 0; }
  constexpr const T* begin() const noexcept { return first_; }
  constexpr const T* end() const noexcept { return first_ + count_; }
  constexpr const T& operator[](std::size_t n) const noexcept { return first_[n]; }
  constexpr const T& front() const noexcept { return first_[0]; }
  constexpr const T& back() const noexcept { return first_[count_ - 1]; }

 private:
  const T* first_ = nullptr;
  std::size_t count_ = 0;
};

POSENC_END
