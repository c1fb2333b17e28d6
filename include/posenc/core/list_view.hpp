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
class ListView {
 public:
  constexpr ListView() noexcept = default;
  constexpr ListView(std::initializer_list<T> list) noexcept
      : ListView(list.begin(), list.size()) {}
  constexpr ListView(const T* first, std::size_t count) noexcept : first_(first), count_(count) {}
  // Apart from other ranges: what std::span asks of them costs a compiler much for each T anew.
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
