// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/json_parser.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// JSON object whose keys are read by type and recorded, so that unread keys can be rejected at the
/// end. null counts as absent.
class JsonKeys {
 public:
  /// `name` denotes the object in messages.
  JsonKeys(const nlohmann::json& object, std::string name)
      : object_(object), name_(std::move(name)) {
    if (!object.is_object()) fail<ConfigError>(function, name_, " must be a JSON object");
  }

  const std::string& name() const noexcept { return name_; }
  const nlohmann::json& object() const noexcept { return object_; }

  const nlohmann::json* find(const std::string& key) const {
    read_.insert(key);
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }

  /// Like find(), but the key does not count as read.
  const nlohmann::json* peek(const std::string& key) const {
    const auto at = object_.find(key);
    return at == object_.end() || at->is_null() ? nullptr : &*at;
  }

  /// True if the key was read.
  bool was_read(const std::string& key) const { return read_.count(key) != 0; }

  /// True if the key exists, even if its value is null.
  bool has(const std::string& key) const { return object_.contains(key); }

  std::optional<double> real(const std::string& key) const {
    return get<double>(key, "a finite number");
  }
  /// Returns an integer; 32768.0 counts as one.
  std::optional<Index> integer(const std::string& key) const {
    return get<Index>(key, "an integer");
  }
  std::optional<bool> flag(const std::string& key) const { return get<bool>(key, "true or false"); }
  std::optional<std::string> text(const std::string& key) const {
    return get<std::string>(key, "a string");
  }
  std::optional<std::vector<double>> reals(const std::string& key) const {
    return list<double>(key, "a list of finite numbers");
  }
  std::optional<std::vector<Index>> integers(const std::string& key) const {
    return list<Index>(key, "a list of integers");
  }
  std::optional<std::vector<bool>> flags(const std::string& key) const {
    return list<bool>(key, "a list of true and false");
  }
  std::optional<std::vector<std::string>> texts(const std::string& key) const {
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
  T required(const std::string& key, const std::optional<T>& value) const {
    if (!value) fail<ConfigError>(function, name_, " must have ", key);
    return *value;
  }

  [[noreturn]] void reject(const std::string& key, std::string_view why) const {
    fail<ConfigError>(function, "'", key, "' in ", name_, " ", why);
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
    for (const auto& [key, value] : object_.items()) {
      if (!value.is_null() && read_.count(key) == 0 && !may_ignore(key, value)) {
        reject(
            key,
            "is unknown, or has no effect with the other settings; remove it if it changes neither "
            "positions nor scores");
      }
    }
  }

  static constexpr const char* function = "read_hf_config";

 private:
  template <class T>
  static std::optional<T> convert(const nlohmann::json& value) {
    if constexpr (std::is_same_v<T, bool>) {
      if (value.is_boolean()) return value.get<bool>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (value.is_string()) return value.get_ref<const std::string&>();
    } else if constexpr (std::is_same_v<T, double>) {
      if (value.is_number() && std::isfinite(value.get<double>())) return value.get<double>();
    } else {
      if (value.is_number_unsigned()) {
        const auto number = value.get<std::uint64_t>();
        if (number <= std::uint64_t{(std::numeric_limits<Index>::max)()}) {
          return static_cast<Index>(number);
        }
      } else if (value.is_number_integer()) {
        return value.get<Index>();
      } else if (value.is_number_float()) {
        const auto number = value.get<double>();
        constexpr double exact = 9007199254740992;  // 2^53
        if (std::abs(number) <= exact && number == std::rint(number)) {
          return static_cast<Index>(number);
        }
      }
    }
    return std::nullopt;
  }

  template <class T>
  std::optional<T> get(const std::string& key, const char* expected) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    auto converted = convert<T>(*value);
    if (!converted) reject(key, std::string("must be ") + expected);
    return converted;
  }

  template <class T>
  std::optional<std::vector<T>> list(const std::string& key, const char* expected) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_array()) reject(key, std::string("must be ") + expected);
    std::vector<T> elements;
    for (const nlohmann::json& element : *value) {
      auto converted = convert<T>(element);
      if (!converted) reject(key, std::string("must be ") + expected);
      elements.push_back(*std::move(converted));
    }
    return elements;
  }

  const nlohmann::json& object_;
  std::string name_;
  mutable std::set<std::string> read_;
};

/// Parses JSON text of unknown origin, in linear time.
///   Throws: ConfigError with line and column if the text is not JSON, is nested more than 64 deep,
///           or has two values for one key
inline nlohmann::json parse_json(std::string_view text) {
  return JsonParser(JsonKeys::function, text).parse();
}

}  // namespace detail
POSENC_END
