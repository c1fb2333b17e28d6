// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

POSENC_BEGIN
namespace detail {

/// JSON value. The readers see this type alone, whether a file comes as text or parsed by another
/// library, so that they compile without that library.
class Json {
 public:
  /// Members of an object, sorted by key.
  using Members = std::map<std::string, Json, std::less<>>;

  Json() noexcept = default;  ///< null
  Json(bool flag) noexcept : kind_(Kind::Flag), integer_(flag ? 1 : 0) {}
  Json(int number) noexcept : Json(std::int64_t{number}) {}
  Json(std::int64_t number) noexcept : kind_(Kind::Integer), integer_(number) {}
  Json(double number) noexcept : kind_(Kind::Real), real_(number) {}
  Json(const char* text) : Json(std::string(text)) {}
  Json(std::string text);
  Json(const std::vector<std::string>& texts);
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json array() { return Json(Kind::Array); }
  static Json object(std::initializer_list<std::pair<std::string_view, Json>> members = {});
  /// Returns a value of a kind that JSON does not have, such as the bytes of CBOR.
  static Json foreign() { return Json(Kind::Foreign); }

  bool is_null() const noexcept { return kind_ == Kind::Null; }
  bool is_boolean() const noexcept { return kind_ == Kind::Flag; }
  bool is_integer() const noexcept { return kind_ == Kind::Integer; }
  bool is_number() const noexcept { return kind_ == Kind::Integer || kind_ == Kind::Real; }
  bool is_string() const noexcept { return kind_ == Kind::Text; }
  bool is_array() const noexcept { return kind_ == Kind::Array; }
  bool is_object() const noexcept { return kind_ == Kind::Object; }

  // Values of the kind that the name says. Other kinds have false, 0, or an empty value.
  bool flag() const noexcept { return is_boolean() && integer_ != 0; }
  std::int64_t integer() const noexcept { return is_integer() ? integer_ : 0; }
  double number() const noexcept;
  const std::string& text() const noexcept;
  const std::vector<Json>& elements() const noexcept;
  const Members& members() const noexcept;

  /// Returns the value of a key of an object, which may be null; nullptr if there is none.
  const Json* find(std::string_view key) const noexcept;
  bool contains(std::string_view key) const noexcept { return find(key) != nullptr; }
  /// Returns the value of a key, by default null.
  Json& operator[](std::string_view key);
  void erase(std::string_view key);
  /// Adds a key unless it exists. Returns its value, and whether it was added.
  std::pair<Members::iterator, bool> add(std::string key);
  void push_back(Json element);

  // True if the value is of the argument's kind and equals it.
  bool is_flag(bool value) const noexcept { return is_boolean() && flag() == value; }
  bool is_equal(double value) const noexcept { return is_number() && number() == value; }
  bool is_text(std::string_view value) const noexcept { return is_string() && text() == value; }

  friend bool operator==(const Json& a, const Json& b) noexcept { return a.equals(b); }

 private:
  enum class Kind : unsigned char { Null, Flag, Integer, Real, Text, Array, Object, Foreign };
  struct Content;

  explicit Json(Kind kind);
  bool equals(const Json& other) const noexcept;
  const Content& content() const noexcept;

  Kind kind_ = Kind::Null;
  std::int64_t integer_ = 0;  ///< of a flag, 0 or 1
  double real_ = 0;
  std::unique_ptr<Content> content_;  ///< of texts, arrays and objects
};

struct Json::Content {
  std::string text;
  std::vector<Json> elements;
  Members members;
};

inline Json::~Json() = default;
inline Json::Json(Json&& other) noexcept = default;
inline Json::Json(Kind kind) : kind_(kind), content_(std::make_unique<Content>()) {}
inline Json::Json(std::string text) : Json(Kind::Text) { content_->text = std::move(text); }
POSENC_COLD inline Json::Json(const std::vector<std::string>& texts) : Json(Kind::Array) {
  for (const std::string& text : texts) push_back(text);
}
POSENC_COLD inline Json::Json(const Json& other)
    : kind_(other.kind_),
      integer_(other.integer_),
      real_(other.real_),
      content_(other.content_ ? std::make_unique<Content>(*other.content_) : nullptr) {}
inline Json& Json::operator=(const Json& other) { return *this = Json(other); }
inline Json& Json::operator=(Json&& other) noexcept = default;

POSENC_COLD inline Json Json::object(
    std::initializer_list<std::pair<std::string_view, Json>> members) {
  Json result(Kind::Object);
  for (const auto& [key, value] : members) result[key] = value;
  return result;
}

inline const Json::Content& Json::content() const noexcept {
  static const Content nothing;
  return content_ ? static_cast<const Content&>(*content_) : nothing;
}
inline double Json::number() const noexcept {
  return kind_ == Kind::Real ? real_ : static_cast<double>(integer());
}
inline const std::string& Json::text() const noexcept { return content().text; }
inline const std::vector<Json>& Json::elements() const noexcept { return content().elements; }
inline const Json::Members& Json::members() const noexcept { return content().members; }

POSENC_COLD inline const Json* Json::find(std::string_view key) const noexcept {
  const auto at = members().find(key);
  return at == members().end() ? nullptr : &at->second;
}
inline Json& Json::operator[](std::string_view key) { return add(std::string(key)).first->second; }
POSENC_COLD inline void Json::erase(std::string_view key) {
  if (!is_object()) return;
  const auto at = content_->members.find(key);
  if (at != content_->members.end()) content_->members.erase(at);
}
POSENC_COLD inline std::pair<Json::Members::iterator, bool> Json::add(std::string key) {
  if (!is_object()) *this = object();
  return content_->members.emplace(std::move(key), Json());
}
inline void Json::push_back(Json element) { content_->elements.push_back(std::move(element)); }

POSENC_COLD inline bool Json::equals(const Json& other) const noexcept {
  if (is_integer() && other.is_integer()) return integer_ == other.integer_;
  if (is_number() && other.is_number()) return number() == other.number();
  if (kind_ != other.kind_) return false;
  if (kind_ == Kind::Flag) return integer_ == other.integer_;
  return text() == other.text() && elements() == other.elements() && members() == other.members();
}

}  // namespace detail
POSENC_END
