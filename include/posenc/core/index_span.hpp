// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/call_diagnostics.hpp>
#include <posenc/core/list_view.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

POSENC_BEGIN

/// A read-only list of 32-bit or 64-bit integers in memory of the caller, which are read where they
/// are: lengths, starts and offsets of sequences. It is made from a vector, an array, a span, or a
/// pointer and a count. The memory must outlive it.
class IndexSpan {
 public:
  /// Constructs an empty list.
  constexpr IndexSpan() noexcept = default;
  /// Views the `count` integers from `first` on.
  constexpr IndexSpan(const Index* first, std::size_t count) noexcept
      : long_(first), count_(count) {}
  /// Overload for 32-bit integers.
  constexpr IndexSpan(const std::int32_t* first, std::size_t count) noexcept
      : short_(first), count_(count) {}
  /// Views a parameter of another call. Separate from other ranges, because the constraints of
  /// std::span compile slowly.
  constexpr IndexSpan(ListView<Index> list) noexcept : IndexSpan(list.data(), list.size()) {}
  /// Views a range that converts to a std::span of 32-bit or 64-bit integers. Another argument does
  /// not compile.
  template <class Range>
  requires(!std::derived_from<Range, IndexSpan>) constexpr IndexSpan(const Range& range) noexcept {
    if constexpr (std::convertible_to<const Range&, std::span<const Index>>) {
      const std::span<const Index> span(range);
      *this = {span.data(), span.size()};
    } else if constexpr (std::convertible_to<const Range&, std::span<const std::int32_t>>) {
      const std::span<const std::int32_t> span(range);
      *this = {span.data(), span.size()};
    } else {
      static_assert(detail::dependent_false<Range>,
                    "posenc::IndexSpan: lengths, starts, offsets and positions are posenc::Index, "
                    "which is std::int64_t, or std::int32_t: a vector, an array or a span of them");
    }
  }

  /// Returns the number of integers.
  constexpr std::size_t size() const noexcept { return count_; }
  /// True if there are no integers.
  constexpr bool empty() const noexcept { return count_ == 0; }
  /// Returns integer n; n is not checked.
  constexpr Index operator[](std::size_t n) const noexcept {
    return short_ != nullptr ? Index{short_[n]} : long_[n];
  }
  /// Returns the first integer. The list must not be empty.
  constexpr Index front() const noexcept { return (*this)[0]; }
  /// Returns the last integer. The list must not be empty.
  constexpr Index back() const noexcept { return (*this)[count_ - 1]; }
  /// Returns the `count` integers from number `first` on. The range is not checked.
  constexpr IndexSpan subspan(std::size_t first, std::size_t count) const noexcept {
    return short_ != nullptr ? IndexSpan(short_ + first, count) : IndexSpan(long_ + first, count);
  }
  /// Returns f(list), where list is a ListView of the integers in their own type.
  template <class F>
  constexpr auto visit(const F& f) const {
    return short_ != nullptr ? f(ListView<std::int32_t>(short_, count_))
                             : f(ListView<Index>(long_, count_));
  }

 private:
  const Index* long_ = nullptr;
  const std::int32_t* short_ = nullptr;  ///< null if the integers have 64 bits
  std::size_t count_ = 0;
};

/// An IndexSpan as a parameter, which also takes a braced list such as {0, 2}. A braced list lives
/// only until the end of the call.
class IndexList : public IndexSpan {
 public:
  using IndexSpan::IndexSpan;
  /// Views the integers of a span.
  constexpr IndexList(IndexSpan list) noexcept : IndexSpan(list) {}
  /// Views a braced list, which lives only until the end of the call.
  constexpr IndexList(std::initializer_list<Index> list) noexcept
      : IndexSpan(list.begin(), list.size()) {}
};

POSENC_END
