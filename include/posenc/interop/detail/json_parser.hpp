// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>
#include <posenc/interop/detail/json.hpp>

#include <charconv>
#include <clocale>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>
#include <system_error>

POSENC_BEGIN
namespace detail {

/// Parser of JSON (RFC 8259) with Python's extensions: the words NaN, Infinity and -Infinity, and
/// numbers beyond a double's range, become non-finite numbers. JsonKeys rejects these by key when
/// they are read. A key that occurs twice in one object, and more than `max_depth` nested objects
/// and arrays, are errors.
///
/// Texts may be of unknown origin: each byte is read a bounded number of times. `Text` is
/// std::string_view, except in tests, which count reads.
///   Throws: ConfigError with the reason, the line, and the column in bytes
///   Cost:   linear in the size of the text, plus sorting the keys of each object
template <class Text = std::string_view>
class JsonParser {
 public:
  static constexpr int max_depth = 64;

  JsonParser(const char* function, Text text) : function_(function), text_(text) {}

  Json parse() {
    if (text_.size() >= 3 && byte(0) == 0xef && byte(1) == 0xbb && byte(2) == 0xbf) at_ = 3;
    Json value = read_value(0);
    skip_space();
    if (at_ != text_.size()) reject("there is more text after the value");
    return value;
  }

 private:
  using Byte = unsigned char;

  Byte byte(std::size_t at) const { return static_cast<Byte>(text_[at]); }
  bool is_at(char c) const { return at_ < text_.size() && text_[at_] == c; }
  bool is_at_digit() const { return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; }

  void skip_space() {
    while (is_at(' ') || is_at('\n') || is_at('\r') || is_at('\t')) ++at_;
  }

  /// Skips space, then `c` if it follows. Returns whether it did.
  bool consume(char c) {
    skip_space();
    if (!is_at(c)) return false;
    ++at_;
    return true;
  }

  bool consume_word(std::string_view word) {
    if (text_.size() - at_ < word.size()) return false;
    for (std::size_t i = 0; i < word.size(); ++i) {
      if (text_[at_ + i] != word[i]) return false;
    }
    at_ += word.size();
    return true;
  }

  Json read_value(int depth) {
    using Limits = std::numeric_limits<double>;
    skip_space();
    if (at_ == text_.size()) reject("the text ends where a value should begin");
    switch (text_[at_]) {
      case '{':
        return read_object(depth + 1);
      case '[':
        return read_array(depth + 1);
      case '"':
        return read_text();
      case 't':
        if (consume_word("true")) return true;
        break;
      case 'f':
        if (consume_word("false")) return false;
        break;
      case 'n':
        if (consume_word("null")) return {};
        break;
      case 'N':
        if (consume_word("NaN")) return Limits::quiet_NaN();
        break;
      case 'I':
        if (consume_word("Infinity")) return Limits::infinity();
        break;
      case '-':
        if (consume_word("-Infinity")) return -Limits::infinity();
        return read_number();
      default:
        if (is_at_digit()) return read_number();
    }
    reject("no value begins with this character");
  }

  void enter(int depth) {
    if (depth > max_depth)
      fail<ConfigError>(function_, "the text nests too deeply: ", position_text(at_));
    ++at_;
  }

  Json read_array(int depth) {
    enter(depth);
    auto array = Json::array();
    if (consume(']')) return array;
    for (;;) {
      array.push_back(read_value(depth));
      if (consume(']')) return array;
      if (!consume(',')) reject("a comma or ] should follow");
    }
  }

  Json read_object(int depth) {
    enter(depth);
    Json object = Json::object();
    if (consume('}')) return object;
    for (;;) {
      skip_space();
      const std::size_t begin = at_;
      if (!is_at('"')) reject("a key in double quotes should follow");
      const auto [member, is_new] = object.add(read_text());
      if (!is_new) {
        fail<ConfigError>(function_, "the key '", std::string_view(member->first).substr(0, 100),
                          "' occurs twice in one object: ", position_text(begin));
      }
      if (!consume(':')) reject("a colon should follow");
      member->second = read_value(depth);
      if (consume('}')) return object;
      if (!consume(',')) reject("a comma or } should follow");
    }
  }

  // Strings.

  std::string read_text() {
    const std::size_t begin = at_++;
    std::string text;
    for (;;) {
      if (at_ == text_.size()) reject("the string that begins here is not closed", begin);
      const Byte c = byte(at_);
      if (c == '"') break;
      if (c < 0x20) reject("a control character in a string must be escaped");
      if (c == '\\') {
        read_escape(text);
        continue;
      }
      const std::size_t length = utf8_length();
      if (length == 0) reject("this is not UTF-8");
      for (std::size_t i = 0; i < length; ++i) text += text_[at_++];
    }
    ++at_;
    return text;
  }

  void read_escape(std::string& text) {
    constexpr std::string_view names = "\"\\/bfnrt", characters = "\"\\/\b\f\n\r\t";
    if (at_ + 1 == text_.size()) reject("the text ends within an escape");
    const auto found = names.find(text_[at_ + 1]);
    if (found != std::string_view::npos) {
      text += characters[found];
      at_ += 2;
      return;
    }
    const std::size_t begin = at_;
    std::uint32_t code = read_code_unit();
    if (code >= 0xd800 && code < 0xdc00) {
      const std::uint32_t low = is_at('\\') ? read_code_unit() : 0;
      if (low < 0xdc00 || low > 0xdfff) reject("a surrogate has no partner", begin);
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code < 0xe000) {
      reject("a surrogate has no partner", begin);
    }
    append_utf8(text, code);
  }

  /// Reads an escape \uXXXX.
  std::uint32_t read_code_unit() {
    const std::size_t begin = at_;
    if (text_.size() - at_ < 6 || text_[at_ + 1] != 'u') reject("this is not a valid escape");
    at_ += 2;
    std::uint32_t code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = text_[at_++];
      const std::uint32_t digit = c >= '0' && c <= '9'   ? static_cast<std::uint32_t>(c - '0')
                                  : c >= 'a' && c <= 'f' ? static_cast<std::uint32_t>(c - 'a' + 10)
                                  : c >= 'A' && c <= 'F' ? static_cast<std::uint32_t>(c - 'A' + 10)
                                                         : 16;
      if (digit == 16) reject("this is not a valid escape", begin);
      code = code << 4 | digit;
    }
    return code;
  }

  static void append_utf8(std::string& text, std::uint32_t code) {
    const auto add = [&text](std::uint32_t bits) { text += static_cast<char>(bits); };
    if (code < 0x80) return add(code);
    if (code < 0x800) {
      add(0xc0 | code >> 6);
    } else {
      if (code < 0x10000) {
        add(0xe0 | code >> 12);
      } else {
        add(0xf0 | code >> 18);
        add(0x80 | (code >> 12 & 0x3f));
      }
      add(0x80 | (code >> 6 & 0x3f));
    }
    add(0x80 | (code & 0x3f));
  }

  /// Returns the length in bytes of the UTF-8 character that begins here, or 0 if none does.
  std::size_t utf8_length() const {
    const Byte first = byte(at_);
    if (first < 0x80) return 1;
    const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    if (first < 0xc2 || first > 0xf4 || text_.size() - at_ < length) return 0;
    // Overlong forms, surrogates and code points above U+10FFFF are invalid.
    const Byte low = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const Byte high = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    if (byte(at_ + 1) < low || byte(at_ + 1) > high) return 0;
    for (std::size_t i = 2; i < length; ++i) {
      if ((byte(at_ + i) & 0xc0) != 0x80) return 0;
    }
    return length;
  }

  // Numbers.

  void read_digits() {
    if (!is_at_digit()) reject("a digit should follow");
    while (is_at_digit()) ++at_;
  }

  Json read_number() {
    const std::size_t begin = at_;
    if (is_at('-')) ++at_;
    const bool is_zero = is_at('0');
    const std::size_t first = at_;
    read_digits();
    if (is_zero && at_ - first > 1) {
      reject("a number must not begin with 0 and another digit", begin);
    }
    bool is_integer = true;
    if (is_at('.')) {
      is_integer = false;
      ++at_;
      read_digits();
    }
    if (is_at('e') || is_at('E')) {
      is_integer = false;
      ++at_;
      if (is_at('+') || is_at('-')) ++at_;
      read_digits();
    }
    const std::string token(text_.substr(begin, at_ - begin));
    const char* const end = token.data() + token.size();
    if (std::int64_t value = 0;
        is_integer && std::from_chars(token.data(), end, value).ec == std::errc()) {
      return value;
    }
    return to_double(token);
  }

  /// Returns the nearest double, an infinity beyond its range.
  static double to_double(std::string token) {
#if defined(__cpp_lib_to_chars)
    double value = 0;
    if (std::from_chars(token.data(), token.data() + token.size(), value).ec == std::errc()) {
      return value;
    }
#endif
    // strtod() reads numbers beyond the range as well, with the decimal point of the locale.
    const std::size_t point = token.find('.');
    if (point != std::string::npos) token.replace(point, 1, std::localeconv()->decimal_point);
    return std::strtod(token.c_str(), nullptr);
  }

  // Positions in messages.

  std::string position_text(std::size_t at) const {
    std::size_t line = 1, line_begin = 0;
    for (std::size_t i = 0; i < at; ++i) {
      if (text_[i] != '\n') continue;
      ++line;
      line_begin = i + 1;
    }
    const std::string column = std::to_string(at - line_begin + 1);
    return "line " + std::to_string(line) + ", column " + column +
           (at == text_.size() ? " (its end)" : " (byte " + std::to_string(at + 1) + ")");
  }

  [[noreturn]] void reject(std::string_view why) const { reject(why, at_); }
  [[noreturn]] void reject(std::string_view why, std::size_t at) const {
    fail<ConfigError>(function_, "the text is not JSON: ", why, ": ", position_text(at));
  }

  const char* function_;
  Text text_;
  std::size_t at_ = 0;
};

}  // namespace detail
POSENC_END
