// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/interop/model_settings.hpp>

#include <initializer_list>
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

// Keys is JsonKeys or GgufKeys.

/// Rejects a size of the model that is out of range.
template <class Keys>
void check_size(const Keys& keys, const char* name, Index size, Index min_size) {
  if (size < min_size || size > max_model_size) {
    keys.reject(name, "must be from ", min_size, " to ", max_model_size);
  }
}

template <class Keys>
std::optional<Index> agreed_size(const Keys& keys, std::initializer_list<const char*> names) {
  AgreedNumber<Index> agreed;
  for (const char* name : names) {
    const auto size = keys.integer(name);
    if (size) check_size(keys, name, *size, 1);
    agreed.add(size);
  }
  return agreed.get();
}

template <class Keys>
AgreedNumber<double> agreed_epsilon(const Keys& keys, std::initializer_list<const char*> names) {
  AgreedNumber<double> agreed;
  for (const char* name : names) {
    const auto epsilon = keys.real(name);
    if (epsilon && !(*epsilon > 0)) keys.reject(name, "must be positive");
    agreed.add(epsilon);
  }
  return agreed;
}

}  // namespace detail
POSENC_END
