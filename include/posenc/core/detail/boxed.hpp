// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <utility>

POSENC_BEGIN
namespace detail {

/// A value apart from its holder, copied with it; or none. For one of several types: a std::variant of them
/// takes several times as long to compile.
template <class T>
class Boxed {
 public:
  Boxed() = default;
  Boxed(const T& value) : value_(new T(value)) {}  // NOLINT: what it holds
  Boxed(const Boxed& other) : value_(other.value_ == nullptr ? nullptr : new T(*other.value_)) {}
  Boxed& operator=(const Boxed&) = delete;  // two of them might be assigned, and the third not
  ~Boxed() { delete value_; }

  void swap(Boxed& other) noexcept { std::swap(value_, other.value_); }
  /// nullptr where there is none.
  const T* get() const noexcept { return value_; }

 private:
  const T* value_ = nullptr;
};

}  // namespace detail
POSENC_END
