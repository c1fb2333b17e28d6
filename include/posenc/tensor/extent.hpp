// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

POSENC_BEGIN

/// Extent of an axis of a view, or distance between its elements: an Index that may be omitted. It
/// is made from an integer of any type, and converts to Index. An omitted one is negative as an
/// Index, so that loops over it visit nothing.
///   Throws: ShapeError for an integer that an Index cannot hold
class Extent {
 public:
  /// Constructs an omitted extent, which functions refuse by its name.
  constexpr Extent() noexcept = default;
  /// Constructs an extent from an integer of any type.
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) constexpr Extent(Integer value)
      : value_(static_cast<Index>(value)) {
    if constexpr (std::is_unsigned_v<Integer> && sizeof(Integer) >= sizeof(Index)) {
      if (!std::in_range<Index>(value)) reject(value);
    }
  }

  /// Returns the number.
  constexpr operator Index() const noexcept { return value_; }
  /// Adds a number to an extent that is not omitted.
  constexpr Extent& operator+=(Index number) noexcept { return *this = value_ + number; }
  /// Subtracts a number from an extent that is not omitted.
  constexpr Extent& operator-=(Index number) noexcept { return *this = value_ - number; }
  /// True if no number was given.
  constexpr bool is_omitted() const noexcept { return value_ == omitted; }

 private:
  static void reject(unsigned long long value) {
    detail::fail<ShapeError>("Extent", "an extent or stride must be at most 2^63 - 1 but is ",
                             value);
  }

  static constexpr Index omitted = (std::numeric_limits<Index>::min)();
  Index value_ = omitted;
};

static_assert(std::is_trivially_copyable_v<Extent> && sizeof(Extent) == sizeof(Index));

POSENC_END
