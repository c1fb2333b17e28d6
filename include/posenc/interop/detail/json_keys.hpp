// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/json.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// JSON object whose keys are read by type and recorded, so that unread keys can be rejected at the
/// end. null counts as absent.
class JsonKeys {
 public:
  /// `name` denotes the object in messages.
  JsonKeys(const Json& object, std::string name) : object_(object), name_(std::move(name)) {
    if (!object.is_object()) fail<ConfigError>(function, name_, " must be a JSON object");
  }

  const std::string& name() const noexcept { return name_; }
  const Json& object() const noexcept { return object_; }

  const Json* find(std::string_view key) const {
    const Json* value = object_.find(key);
    if (value != nullptr && !is_read(value)) read_.push_back(value);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  /// Like find(), but the key does not count as read.
  const Json* peek(std::string_view key) const {
    const Json* value = object_.find(key);
    return value == nullptr || value->is_null() ? nullptr : value;
  }

  /// True if the key exists and was read.
  bool was_read(std::string_view key) const { return is_read(object_.find(key)); }

  /// True if the key exists, even if its value is null.
  bool has(std::string_view key) const { return object_.contains(key); }

  std::optional<double> real(std::string_view key) const {
    return get<double>(key, "a finite number");
  }
  /// Returns an integer; 32768.0 counts as one.
  std::optional<Index> integer(std::string_view key) const { return get<Index>(key, "an integer"); }
  std::optional<bool> flag(std::string_view key) const { return get<bool>(key, "true or false"); }
  std::optional<std::string> text(std::string_view key) const {
    return get<std::string>(key, "a string");
  }
  std::optional<std::vector<double>> reals(std::string_view key) const {
    return list<double>(key, "a list of finite numbers");
  }
  std::optional<std::vector<Index>> integers(std::string_view key) const {
    return list<Index>(key, "a list of integers");
  }
  std::optional<std::vector<bool>> flags(std::string_view key) const {
    return list<bool>(key, "a list of true and false");
  }
  std::optional<std::vector<std::string>> texts(std::string_view key) const {
    return list<std::string>(key, "a list of strings");
  }

  /// Returns a value that may have one of several names.
  ///   Throws: ConfigError if two of them are given and differ
  template <class T>
  std::optional<T> any_of(std::initializer_list<const char*> keys) const {
    std::optional<T> found;
    const char* found_as = nullptr;
    for (const char* key : keys) {
      const auto value = get<T>(key, std::is_same_v<T, double> ? "a finite number" : "an integer");
      if (!value) continue;
      if (found && *found != *value) {
        fail<ConfigError>(function, name_, " contradicts itself: ", found_as, " is ", *found,
                          " but ", key, " is ", *value);
      }
      found = value;
      found_as = key;
    }
    return found;
  }

  /// Returns the value of a required key.
  ///   Throws: ConfigError if it is absent
  template <class T>
  T required(std::string_view key, const std::optional<T>& value) const {
    if (!value) fail<ConfigError>(function, name_, " must have ", key);
    return *value;
  }

  template <class... Parts>
  [[noreturn]] void reject(std::string_view key, Parts... why) const {
    fail<ConfigError>(function, "'", key, "' in ", std::string_view(name_), " ", why...);
  }

  /// Returns the first value among several names, which need not agree.
  std::optional<Index> first_integer(std::initializer_list<const char*> keys) const {
    std::optional<Index> found;
    for (const char* key : keys) {
      const auto value = integer(key);
      if (!found) found = value;
    }
    return found;
  }

  /// Rejects the first key that has a value, was not read, and may not be ignored.
  template <class MayIgnore>
  void reject_unread(const MayIgnore& may_ignore) const {
    for (const auto& [key, value] : object_.members()) {
      if (!value.is_null() && !is_read(&value) && !may_ignore(key, value)) {
        reject(
            key,
            "is unknown, or has no effect with the other settings; remove it if it changes neither "
            "positions nor scores");
      }
    }
  }

  static constexpr const char* function = "read_hf_config";

 private:
  bool is_read(const Json* value) const {
    return std::find(read_.begin(), read_.end(), value) != read_.end();
  }

  template <class T>
  static std::optional<T> convert(const Json& value) {
    if constexpr (std::is_same_v<T, bool>) {
      if (value.is_boolean()) return value.flag();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (value.is_string()) return value.text();
    } else if constexpr (std::is_same_v<T, double>) {
      if (value.is_number() && std::isfinite(value.number())) return value.number();
    } else {
      if (value.is_integer()) return value.integer();
      constexpr double exact = 9007199254740992;  // 2^53
      const double number = value.number();
      if (value.is_number() && std::abs(number) <= exact && number == std::rint(number)) {
        return static_cast<Index>(number);
      }
    }
    return std::nullopt;
  }

  template <class T>
  std::optional<T> get(std::string_view key, const char* expected) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    auto converted = convert<T>(*value);
    if (!converted) reject(key, "must be ", expected);
    return converted;
  }

  template <class T>
  std::optional<std::vector<T>> list(std::string_view key, const char* expected) const {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_array()) reject(key, "must be ", expected);
    std::vector<T> elements;
    for (const Json& element : value->elements()) {
      auto converted = convert<T>(element);
      if (!converted) reject(key, "must be ", expected);
      elements.push_back(*std::move(converted));
    }
    return elements;
  }

  const Json& object_;
  std::string name_;
  mutable std::vector<const Json*> read_;  ///< few: readers ask for keys that they know
};

}  // namespace detail
POSENC_END
