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

POSENC_STABLE_BEGIN

/// Tensors whose shapes do not fit each other or the encoder.
struct ShapeError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// A setting that is missing, out of its range, or contradicts another.
struct ConfigError : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

/// A position or index that the encoder cannot represent.
struct PositionError : std::out_of_range {
  using std::out_of_range::out_of_range;
};

/// More memory than a limit that was set allows: a KvBlockPool is exhausted.
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

/// The fewest digits that give the number back.
template <std::floating_point Number>
std::string to_text(Number value) {
  char buffer[64];
#if defined(__cpp_lib_to_chars)
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, result.ptr);
#else
  // Apple's library before macOS 13.3 and others of its age have std::to_chars of integers alone.
  const auto number = static_cast<double>(value);
  for (int digits = 6; digits < 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, number);
    if (static_cast<Number>(std::strtod(buffer, nullptr)) == value) return buffer;
  }
  std::snprintf(buffer, sizeof buffer, "%.17g", number);
  return buffer;
#endif
}

/// "[2, 8, 16, 96]". A span as parameter would ask of every part of every message whether it is a range.
template <class Extents>
requires requires(const Extents& extents) {
  { extents.data() } -> std::same_as<const Index*>;
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
[[noreturn]] void raise(const std::string& message) {
#if POSENC_HAS_EXCEPTIONS
  throw Error(message);
#else
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
#endif
}

/// "posenc::<function>: "
inline std::string message_of(std::string_view function) {
  std::string message = "posenc::";
  message += function;
  return message += ": ";
}
template <class Part>
void append(std::string& message, const Part& part) {
  message += to_text(part);
}

/// Throws Error("posenc::<function>: <parts...>"). Out of line and cold, so that callers stay small. Parts are
/// taken by value, as literals of all lengths then have one type: a function for each of the library's messages
/// would be compiled in every file.
template <class Error, class... Parts>
#if defined(__GNUC__)
[[gnu::cold, gnu::noinline]]
#endif
[[noreturn]] void
fail(std::string_view function, Parts... parts) {
  std::string message = message_of(function);
  (append(message, parts), ...);
  raise<Error>(message);
}

}  // namespace detail
POSENC_END
