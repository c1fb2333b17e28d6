// SPDX-License-Identifier: MIT
// Text of unknown origin: JSON is read unchanged, anything else is rejected with its position, and
// the work is linear in the size of the text.
#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/guarded.hpp"
#include <posenc/interop/detail/json_keys.hpp>
#include <posenc/interop/hf_config.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

namespace json_parser_test {

using Catch::Matchers::Message;
using nlohmann::json;
using posenc::ConfigError;
using posenc::detail::Json;
using posenc::detail::json_of;
using posenc::detail::JsonKeys;
using posenc::detail::JsonParser;

namespace {

Json parse_json(std::string_view text) { return JsonParser(JsonKeys::function, text).parse(); }

void check_rejected(std::string_view text, const std::string& message) {
  CAPTURE(text.substr(0, 60));
  CHECK_THROWS_MATCHES(parse_json(text), ConfigError,
                       Message("posenc::read_hf_config: " + message));
}

void refuse_json(std::string_view text, const std::string& reason) {
  check_rejected(text, "the text is not JSON: " + reason);
}

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

/// Text that counts reads of its bytes.
class Counting {
 public:
  explicit Counting(std::string_view text) : text_(text) {}
  std::size_t size() const { return text_.size(); }
  char operator[](std::size_t at) const {
    ++looks;
    return text_[at];
  }
  std::string_view substr(std::size_t at, std::size_t n) const {
    looks += n;
    return text_.substr(at, n);
  }

  inline static std::size_t looks = 0;

 private:
  std::string_view text_;
};

struct Work {
  std::size_t looks, allocations;
};

Work work_of(const std::string& text) {
  Counting::looks = 0;
  const std::size_t before = support::allocations();
  try {
    JsonParser("test", Counting(text)).parse();
  } catch (const ConfigError&) {
  }
  return {Counting::looks, support::allocations() - before};
}

}  // namespace

TEST_CASE("JsonParser: reads as nlohmann does", "[interop][json]") {
  for (const char* text : {"null",
                           "true",
                           "false",
                           "0",
                           "-0",
                           "7",
                           "-7",
                           "18446744073709551615",
                           "-9223372036854775808",
                           "9223372036854775807",
                           "18446744073709551616",
                           "999999999999999999",
                           "1000000000000000000",
                           "-1000000000000000000",
                           "0.1",
                           "-1.5e-3",
                           "1E5",
                           "1e308",
                           "5e-324",
                           "1e-400",
                           "\"\"",
                           R"("a\"\\\/\b\f\n\r\tz")",
                           R"("\u0041\u00e9\u20ac\ud83d\ude00")",
                           "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\x7f\"",
                           R"("\ud800\udc00\udbff\udfff\ud7ff\ue000")",
                           "\"\xe2\x82\xad\xf4\x8f\xbf\xbf\xc2\x80\xed\x9f\xbf\"",
                           "[]",
                           "{}",
                           " [ 1 , [ ] , { } ] ",
                           R"({"b": [1, 2.5, null], "a": {"": true}, "c": "x"})",
                           "\xef\xbb\xbf{\"a\": 1}",
                           "\t\r\n1\n"}) {
    CAPTURE(text);
    const Json found = parse_json(text), expected = json_of(json::parse(text));
    CHECK(found == expected);
    CHECK(found.is_integer() == expected.is_integer());
  }
}

TEST_CASE("JsonParser: numbers that only Python writes are numbers that are not finite",
          "[interop][json]") {
  const Json read = parse_json(
      R"({"a": NaN, "b": Infinity, "c": [-Infinity, 1e400, -1e400, 1e309], "d": "Infinity"})");
  CHECK(std::isnan(read.find("a")->number()));
  CHECK(*read.find("b") == HUGE_VAL);
  CHECK(*read.find("c") == json_of(json::array({-HUGE_VAL, HUGE_VAL, -HUGE_VAL, HUGE_VAL})));
  CHECK(*read.find("d") == "Infinity");
  CHECK(parse_json(repeated("9", 100000)) == HUGE_VAL);
  CHECK(parse_json("0." + repeated("3", 100000)) == 1.0 / 3);

  const JsonKeys keys(read, "the test");
  const std::string prefix = "posenc::read_hf_config: ";
  CHECK_THROWS_MATCHES(keys.real("a"), ConfigError,
                       Message(prefix + "'a' in the test must be a finite number"));
  CHECK_THROWS_MATCHES(keys.integer("b"), ConfigError,
                       Message(prefix + "'b' in the test must be an integer"));
  CHECK_THROWS_MATCHES(keys.reals("c"), ConfigError,
                       Message(prefix + "'c' in the test must be a list of finite numbers"));
}

TEST_CASE("JsonParser: text that is not JSON is rejected with reason and place",
          "[interop][json]") {
  refuse_json("", "the text ends where a value should begin: line 1, column 1 (its end)");
  refuse_json("\n\n ", "the text ends where a value should begin: line 3, column 2 (its end)");
  refuse_json("{\"a\": 1", "a comma or } should follow: line 1, column 8 (its end)");
  refuse_json("{\n  \"a\" 1}", "a colon should follow: line 2, column 7 (byte 9)");
  refuse_json("{\"a\": 1,}", "a key in double quotes should follow: line 1, column 9 (byte 9)");
  refuse_json("{a: 1}", "a key in double quotes should follow: line 1, column 2 (byte 2)");
  refuse_json("[1 2]", "a comma or ] should follow: line 1, column 4 (byte 4)");
  refuse_json("[1]\n]", "there is more text after the value: line 2, column 1 (byte 5)");
  for (const char* text : {"nul", "True", "'a'", "+1", ".5", "nan", "inf", "#", "// a\n1",
                           "-infinity", "\x01", "\xff"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_json(text), ConfigError);
  }
  refuse_json("[.5]", "no value begins with this character: line 1, column 2 (byte 2)");
  refuse_json("[-x]", "a digit should follow: line 1, column 3 (byte 3)");
  refuse_json("[1.]", "a digit should follow: line 1, column 4 (byte 4)");
  refuse_json("[1e+]", "a digit should follow: line 1, column 5 (byte 5)");
  refuse_json("-012",
              "a number must not begin with 0 and another digit: line 1, column 1 (byte 1)");
  refuse_json("[\"ab", "the string that begins here is not closed: line 1, column 2 (byte 2)");
  refuse_json("\"a\nb\"",
              "a control character in a string must be escaped: line 1, column 3 (byte 3)");
  refuse_json("\"\\", "the text ends within an escape: line 1, column 2 (byte 2)");
  refuse_json(R"("\x41")", "this is not a valid escape: line 1, column 2 (byte 2)");
  refuse_json(R"("\u00g0")", "this is not a valid escape: line 1, column 2 (byte 2)");
  // The second escape is wrong.
  CHECK_THROWS_WITH(parse_json(R"("\ud83d\xde00")"),
                    Catch::Matchers::ContainsSubstring("column 8"));
  for (const char* text : {R"("\ud83d")", R"("\ude00")", R"("\ud83dx")", R"("\ud83d\u0041")"}) {
    refuse_json(text, "a surrogate has no partner: line 1, column 2 (byte 2)");
  }
  for (const char* text :
       {"\"\x80\"", "\"\xc0\xaf\"", "\"\xe0\x80\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
        "\"\xf5\x80\x80\x80\"", "\"\xe2\x82\"", "\"\xc3"}) {
    refuse_json(text, "this is not UTF-8: line 1, column 2 (byte 2)");
  }
}

TEST_CASE("JsonParser: a text that ends within a character is read to its end alone",
          "[interop][json]") {
  for (const std::string text : {"\"\xc3", "\"\xe2\x82", "\"\xf0\x9f\x98", "\"\\u00e", "-"}) {
    const auto size = static_cast<posenc::Index>(text.size());
    support::Guarded<char> memory(size);
    char* const at = memory.last(size);
    std::copy(text.begin(), text.end(), at);
    CHECK_THROWS_AS(JsonParser("test", std::string_view(at, text.size())).parse(), ConfigError);
  }
}

TEST_CASE(
    "JsonParser: keys that occur twice and nests that are too deep are rejected with their place",
    "[interop][json]") {
  check_rejected("{\"a\": {\"b\": 1},\n \"b\": 2, \"b\": 3}",
                 "the key 'b' occurs twice in one object: line 2, column 10 (byte 26)");
  CHECK_NOTHROW(parse_json(repeated("[", 64) + repeated("]", 64)));
  const std::string deep = "the text nests too deeply: line 1, column ";
  check_rejected(repeated("[", 100000), deep + "65 (byte 65)");
  check_rejected(repeated("{\"a\":", 100000), deep + "321 (byte 321)");
}

TEST_CASE("json_of: every kind of value is converted, and deep nesting rejected",
          "[interop][json]") {
  const json whole = {{"a", nullptr},
                      {"b", true},
                      {"c", -3},
                      {"d", 18446744073709551615u},
                      {"e", 0.5},
                      {"f", "x"},
                      {"g", {1, {}, 2}},
                      {"h", {{"i", 1}}},
                      {"j", json::binary({1, 2})}};
  const Json found = json_of(whole);
  CHECK(found.find("a")->is_null());
  CHECK(found.find("b")->is_flag(true));
  CHECK(found.find("c")->integer() == -3);
  CHECK(found.find("d")->is_equal(0x1p64));
  CHECK_FALSE(found.find("d")->is_integer());
  CHECK(found.find("e")->is_equal(0.5));
  CHECK(found.find("f")->is_text("x"));
  CHECK(found.find("g")->elements().size() == 3);
  CHECK(found.find("h")->find("i")->is_equal(1));
  const Json& bytes = *found.find("j");
  CHECK_FALSE((bytes.is_null() || bytes.is_array() || bytes.is_string()));
  CHECK(found == json_of(nlohmann::ordered_json(whole)));
  CHECK(json_of(json::parse("{", nullptr, false)).elements().empty());

  json deep = 1;
  for (int depth = 0; depth < 64; ++depth) deep = json::array({deep});
  CHECK_NOTHROW(json_of(deep));
  CHECK_THROWS_MATCHES(
      posenc::read_hf_config(json::array({deep})), ConfigError,
      Message("posenc::read_hf_config: the configuration is nested more than 64 deep"));
}

// Compares reads and allocations for a text and for one of twice its length.
TEST_CASE("JsonParser: reading is linear in the size of the text", "[interop][json]") {
  std::string keys = "{", objects = "{", long_keys = "{";
  std::string keys2 = "{", objects2 = "{", long_keys2 = "{";
  const auto fill = [](std::string& text, std::size_t n, const std::string& before,
                       const std::string& after) {
    for (std::size_t i = 0; i < n; ++i) {
      text += (i == 0 ? "\"" : ",\"") + before + std::to_string(1000000 + i) + after;
    }
    text += "}";
  };
  constexpr std::size_t n = 2000;
  fill(keys, n, "", "\":1");
  fill(keys2, 2 * n, "", "\":1");
  fill(objects, n, "", "\":{}");
  fill(objects2, 2 * n, "", "\":{}");
  fill(long_keys, n, repeated("x", 200), "\":null");
  fill(long_keys2, 2 * n, repeated("x", 200), "\":null");
  const auto list = [](std::string_view element, std::size_t times) {
    return "[" + repeated(element, times) + "0]";
  };
  const struct {
    const char* name;
    std::string text, twice;
  } cases[] = {{"keys", keys, keys2},
               {"objects in an object", objects, objects2},
               {"long keys", long_keys, long_keys2},
               {"objects in an array", list("{\"a\":[]},", n), list("{\"a\":[]},", 2 * n)},
               {"arrays", list("[],", n), list("[],", 2 * n)},
               {"numbers", list("1,", n), list("1,", 2 * n)},
               {"numbers out of range", list("1e400,", n), list("1e400,", 2 * n)},
               {"words", list("Infinity,", n), list("Infinity,", 2 * n)},
               {"texts", list("\"a\\n\\u20ac\",", n), list("\"a\\n\\u20ac\",", 2 * n)},
               {"a long text", "\"" + repeated("x", n) + "\"", "\"" + repeated("x", 2 * n) + "\""},
               {"a long number", repeated("7", n), repeated("7", 2 * n)},
               {"space", repeated(" ", n) + "1", repeated(" ", 2 * n) + "1"},
               {"lines and an error", repeated("\n", n) + "x", repeated("\n", 2 * n) + "x"},
               {"no end", "\"" + repeated("x", n), "\"" + repeated("x", 2 * n)},
               {"depth", repeated("[", n), repeated("[", 2 * n)}};
  for (const auto& one : cases) {
    CAPTURE(one.name);
    const Work work = work_of(one.text), twice = work_of(one.twice);
    CHECK(work.looks <= 16 * one.text.size() + 2000);
    CHECK(work.allocations <= 4 * one.text.size() + 100);
    CHECK(twice.looks <= 2 * work.looks + work.looks / 10 + 2000);
    CHECK(twice.allocations <= 2 * work.allocations + work.allocations / 10 + 100);
  }
}

}  // namespace json_parser_test
