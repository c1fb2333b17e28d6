// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <optional>

POSENC_BEGIN
namespace detail {

/// Number under one of several names; absent if two of them differ, because the programs that read
/// a file differ in the one that they read.
template <class T>
class AgreedNumber {
 public:
  void add(const std::optional<T>& value) {
    if (!value) return;
    if (found_ && *found_ != *value) differs_ = true;
    found_ = value;
  }
  std::optional<T> get() const { return differs_ ? std::nullopt : found_; }
  /// True if no name has a number.
  bool is_absent() const { return !found_; }

 private:
  std::optional<T> found_;
  bool differs_ = false;
};

}  // namespace detail
POSENC_END
