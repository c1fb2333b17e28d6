// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_BEGIN
namespace detail {

/// How many of something an object holds: 0 once it was moved from, as it holds none then.
class Count {
 public:
  Count(Index count) noexcept
      : count_(count) {}  // NOLINT(google-explicit-constructor): it is a number
  Count(const Count&) = default;
  Count& operator=(const Count&) = default;
  Count(Count&& other) noexcept : count_(other.count_) { other.count_ = 0; }
  Count& operator=(Count&& other) noexcept {
    count_ = other.count_;
    other.count_ = 0;  // its own, too, where it is moved to itself
    return *this;
  }
  ~Count() = default;

  operator Index() const noexcept { return count_; }  // NOLINT(google-explicit-constructor)

 private:
  Index count_;
};

}  // namespace detail
POSENC_END
