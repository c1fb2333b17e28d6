// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_BEGIN
namespace detail {

/// An element count that becomes 0 when it is moved from, as the container beside it becomes empty.
class MoveResetIndex {
 public:
  MoveResetIndex(Index count) noexcept : count_(count) {}  // NOLINT(google-explicit-constructor)
  MoveResetIndex(const MoveResetIndex&) = default;
  MoveResetIndex& operator=(const MoveResetIndex&) = default;
  MoveResetIndex(MoveResetIndex&& other) noexcept : count_(other.count_) { other.count_ = 0; }
  MoveResetIndex& operator=(MoveResetIndex&& other) noexcept {
    count_ = other.count_;
    other.count_ = 0;  // self-move gives 0, too
    return *this;
  }
  ~MoveResetIndex() = default;

  operator Index() const noexcept { return count_; }  // NOLINT(google-explicit-constructor)

 private:
  Index count_;
};

}  // namespace detail
POSENC_END
