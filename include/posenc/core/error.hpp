// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

POSENC_STABLE_BEGIN

/// The error of tensors whose shapes do not match each other or the encoding.
struct ShapeError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// The error of a setting that is missing, out of range, or contradicts another.
struct ConfigError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// The error of a position or index that the encoding cannot represent.
struct PositionError : std::out_of_range {
  using std::out_of_range::out_of_range;
};

/// The error of a memory limit that the caller set: a KvBlockPool is exhausted.
struct MemoryLimitError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

POSENC_STABLE_END

POSENC_BEGIN
namespace detail {

inline std::string to_text(std::string_view text) { return std::string(text); }

template <std::integral Number>
std::string to_text(Number value) {
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, result.ptr);
}

/// Returns the shortest text that reads back as the same number.
template <std::floating_point Number>
std::string to_text(Number value) {
  char buffer[64];
#if defined(__cpp_lib_to_chars)
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, result.ptr);
#else
  // Standard libraries as old as Apple's before macOS 13.3 have std::to_chars only for integers.
  const auto number = static_cast<double>(value);
  for (int digits = 6; digits < 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, number);
    if (static_cast<Number>(std::strtod(buffer, nullptr)) == value) return buffer;
  }
  std::snprintf(buffer, sizeof buffer, "%.17g", number);
  return buffer;
#endif
}

/// Returns extents as text, such as "[2, 8, 16, 96]". A template, because a std::span parameter
/// would make the compiler test every part of every message for being a range.
template <class Extents>
requires requires(const Extents& extents) {
  extents.size();
  requires std::same_as<std::remove_cvref_t<decltype(extents[0])>, Index>;
}
std::string to_text(const Extents& extents) {
  std::string text = "[";
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (i != 0) text += ", ";
    text += to_text(extents[i]);
  }
  return text + "]";
}

template <class Error>
[[noreturn]] void throw_error(const std::string& message) {
#if POSENC_HAS_EXCEPTIONS
  throw Error(message);
#else
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
#endif
}

/// Returns the start of a message, "posenc::<function>: ".
inline std::string message_prefix(std::string_view function) {
  std::string message = "posenc::";
  message += function;
  return message += ": ";
}
template <class Part>
void append_text(std::string& message, const Part& part) {
  message += to_text(part);
}

/// Throws Error("posenc::<function>: <parts...>"). Not inlined and cold, so that callers stay
/// small. Parts are passed by value, because string literals of all lengths then have one type. By
/// reference almost every message would instantiate a function of its own in every file.
template <class Error, class... Parts>
#if defined(__GNUC__)
[[gnu::cold, gnu::noinline]]
#endif
[[noreturn]] void
fail(std::string_view function, Parts... parts) {
  std::string message = message_prefix(function);
  (append_text(message, parts), ...);
  throw_error<Error>(message);
}

}  // namespace detail
POSENC_END
