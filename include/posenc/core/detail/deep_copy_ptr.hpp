// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <utility>

POSENC_BEGIN
namespace detail {

/// An owning pointer, possibly null, whose copy copies the value. A class that holds a value of one
/// of several types has one such member per type, because a std::variant compiles several times
/// slower.
template <class T>
class DeepCopyPtr {
 public:
  DeepCopyPtr() = default;
  DeepCopyPtr(const T& value) : value_(new T(value)) {}  // NOLINT: converts from its value
  DeepCopyPtr(const DeepCopyPtr& other)
      : value_(other.value_ == nullptr ? nullptr : new T(*other.value_)) {}
  DeepCopyPtr& operator=(const DeepCopyPtr&) =
      delete;  // a failure would leave its holder half assigned
  ~DeepCopyPtr() { delete value_; }

  void swap(DeepCopyPtr& other) noexcept { std::swap(value_, other.value_); }
  /// Returns the value, or nullptr if there is none.
  const T* get() const noexcept { return value_; }

 private:
  const T* value_ = nullptr;
};

}  // namespace detail
POSENC_END
