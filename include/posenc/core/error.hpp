// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
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

/// The text of an error while it is written. A std::string would be compiled again in every file
/// that can throw, because the standard library has no instantiation of C++20's for it.
class MessageText {
 public:
  MessageText() = default;
  MessageText(const MessageText&) = delete;
  MessageText& operator=(const MessageText&) = delete;
  ~MessageText() { std::free(text_); }

  /// Appends a part, or leaves it out if there is no memory.
  POSENC_COLD void append(std::string_view part) noexcept {
    if (size_ + part.size() >= capacity_) {
      const std::size_t capacity = 2 * (size_ + part.size()) + 128;
      void* const grown = std::realloc(text_, capacity);
      if (grown == nullptr) return;
      text_ = static_cast<char*>(grown);
      capacity_ = capacity;
    }
    std::memcpy(text_ + size_, part.data(), part.size());
    size_ += part.size();
    text_[size_] = '\0';
  }
  /// Returns the text, which ends with a null character.
  const char* c_str() const noexcept { return text_ == nullptr ? "" : text_; }

 private:
  char* text_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
};

inline void append_text(MessageText& message, std::string_view text) { message.append(text); }

POSENC_COLD inline void append_text(MessageText& message, Index value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%lld", static_cast<long long>(value));
  message.append(buffer);
}

template <std::integral Number>
void append_text(MessageText& message, Number value) {
  if constexpr (std::is_signed_v<Number>) {
    append_text(message, static_cast<Index>(value));
  } else {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%llu", static_cast<unsigned long long>(value));
    message.append(buffer);
  }
}

/// Appends the shortest text that reads back as the same number.
template <std::floating_point Number>
void append_text(MessageText& message, Number value) {
  char buffer[64];
#if defined(__cpp_lib_to_chars)
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  message.append({buffer, static_cast<std::size_t>(result.ptr - buffer)});
#else
  // Standard libraries as old as Apple's before macOS 13.3 have std::to_chars only for integers.
  const auto number = static_cast<double>(value);
  for (int digits = 6; digits <= 17; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, number);
    if (static_cast<Number>(std::strtod(buffer, nullptr)) == value) break;
  }
  message.append(buffer);
#endif
}

/// Appends extents, such as "[2, 8, 16, 96]". A template, because a std::span parameter would make
/// the compiler test every part of every message for being a range.
template <class Extents>
requires requires(const Extents& extents) {
  extents.size();
  requires std::same_as<std::remove_cvref_t<decltype(extents[0])>, Index>;
}
void append_text(MessageText& message, const Extents& extents) {
  message.append("[");
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (i != 0) message.append(", ");
    append_text(message, extents[i]);
  }
  message.append("]");
}

/// Returns the text that a value has in a message.
template <class Part>
std::string to_text(const Part& part) {
  MessageText text;
  append_text(text, part);
  return text.c_str();
}

template <class Error>
[[noreturn]] void throw_error(const char* message) {
#if POSENC_HAS_EXCEPTIONS
  throw Error(message);
#else
  std::fprintf(stderr, "%s\n", message);
  std::abort();
#endif
}

/// A part of a message without its type: its address, and the function that appends its text.
struct MessagePart {
  const void* value;
  void (*append)(MessageText& message, const void* value);

  template <class Part>
  static MessagePart of(const Part& part) noexcept {
    return {&part, [](MessageText& message, const void* address) {
              append_text(message, *static_cast<const Part*>(address));
            }};
  }
};

/// Throws Error("posenc::<function>: <parts>").
template <class Error>
[[noreturn]] POSENC_COLD void throw_message(std::string_view function,
                                            std::initializer_list<MessagePart> parts) {
  MessageText message;
  message.append("posenc::");
  message.append(function);
  message.append(": ");
  for (const MessagePart& part : parts) part.append(message, part.value);
  throw_error<Error>(message.c_str());
}

/// Throws Error("posenc::<function>: <parts...>"). Inlined, because a function per combination of
/// types takes longer to compile than the list of parts at each call. Parts are passed by value,
/// because string literals of all lengths then have one type, and so that no variable of the caller
/// must lie in memory.
template <class Error, class... Parts>
[[noreturn]] POSENC_ALWAYS_INLINE void fail(std::string_view function, Parts... parts) {
  throw_message<Error>(function, {MessagePart::of(parts)...});
}

}  // namespace detail
POSENC_END
