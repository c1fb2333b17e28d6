// SPDX-License-Identifier: MIT
#pragma once

#include "conformance/array.hpp"
#include "conformance/compare.hpp"
#include "support/npy.hpp"
#include <posenc/posenc.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <concepts>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace conformance {

using Json = nlohmann::json;

/// Tolerance class of a float result.
enum class Kind {
  Composite,  ///< against the reference's float result: projections, attention
  Encoding    ///< against that, and within 4 ulp of the row's maximum against its double result
};

/// One case: its description, its tensors, and its results. It records what was read and checked,
/// so that nothing is silently omitted.
class Case {
 public:
  /// Reads tensors from files in a directory or, without one, from arrays in the description.
  Case(std::string name, Json description, const std::filesystem::path& directory = {});

  const std::string& name() const { return name_; }
  const Json& description() const { return description_; }
  const std::string& feature() const { return feature_; }
  /// True if the feature contains this word: "rotary/half/4d" has rotary, half and d.
  bool is_about(const std::string& word) const;

  /// Declares the words of features and the parameters that the caller supports. If a case has
  /// others and its results differ, it counts as not supported rather than as failed.
  void knows(std::initializer_list<const char*> words,
             std::initializer_list<const char*> parameters);
  /// Declares parameters that state everything that the feature's words state.
  void knows_feature(std::initializer_list<const char*> parameters);
  /// Returns the words and parameters that the caller did not declare; empty if there are none.
  std::string unknown() const;

  /// Returns a parameter that is present and not null.
  template <class T>
  std::optional<T> parameter(const std::string& key) const {
    const auto at = parameters_.find(key);
    return at == parameters_.end() || at->is_null() ? std::nullopt : std::optional(at->get<T>());
  }
  template <class T>
  T parameter(const std::string& key, const T& otherwise) const {
    return parameter<T>(key).value_or(otherwise);
  }

  template <class T>
  T required(const std::string& key) const {
    const auto value = parameter<T>(key);
    if (!value) throw Malformed("there is no parameter " + key);
    return *value;
  }

  /// True if there is an input or weight of that name.
  bool has(const std::string& name) const { return has_role(name, {"input", "weight"}); }
  /// True if there is a result of that name to compare with, in float or in double.
  bool expects(const std::string& name) const {
    return has_role(name, {"expected", "expected_f64"});
  }
  /// Returns the first of these names that expects().
  std::optional<std::string> first_expected(const std::vector<std::string>& names) const;
  /// True if there is any result of that precision.
  bool expects_in_float() const { return any_role("expected"); }
  bool expects_in_double() const { return any_role("expected_f64"); }

  const std::vector<Index>& shape(const std::string& name) const { return find(name).shape; }
  /// Returns the shape of a result, which the case has in float or only in double.
  const std::vector<Index>& expected_shape(const std::string& name) const {
    return shape(expects(name) ? name : twin_of(name).value_or(name));
  }
  Index expected_extent(const std::string& name, std::size_t axis) const {
    const auto& extents = expected_shape(name);
    if (axis >= extents.size()) throw Malformed("the rank of " + name);
    return extents[axis];
  }
  /// Returns "float16", "float32", "float64", "int64" or "bool".
  const std::string& dtype(const std::string& name) const { return find(name).dtype; }

  template <class T>
  Array<T> read(const std::string& name) {
    const support::Npy& content = load(name);
    Array<T> array(content.shape);
    read_.insert(name);
    if ((std::same_as<T, bool> || std::same_as<T, Index>)&&!content.values.empty()) {
      throw Malformed("tensor " + name + " must hold integers or booleans");
    }
    for (Index i = 0; i < array.size(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      array.data[i] = content.integers.empty() ? element<T>(content.values[at])
                                               : element<T>(content.integers[at]);
    }
    return array;
  }
  /// Declares that a tensor is understood but not needed.
  void skip(const std::string& name) { read_.insert(name); }

  /// Records the largest |position| of the case, because references lose digits as it grows.
  void reaches(const posenc::Positions& positions) {
    reach_ = std::max(reach_, positions.max_magnitude());
  }

  /// Compares a result with the tensor of that name: in float with the reference's float result, in
  /// double with its double one. Without such a tensor there is no comparison.
  template <class T>
  void check(const std::string& name, const Array<T>& actual, Kind kind = Kind::Composite) {
    const std::vector<double> values = to_double(actual);
    const auto in_double = twin_of(name);
    if constexpr (std::same_as<T, double>) {
      if (in_double) compare_with(*in_double, actual.shape, values, double_tolerance());
      return;
    }
    if (has_role(name, {"expected", "as_written"})) {
      compare_with(name, actual.shape, values, float_tolerance(name, kind));
    }
    if (kind == Kind::Encoding && in_double) {
      compare_with(*in_double, actual.shape, values, Tolerance{.row_ulps = 4}, "float against ");
    }
  }
  /// Compares a result with the tensor of exactly that name, with a given tolerance.
  template <class T>
  void check(const std::string& name, const Array<T>& actual, const Allowed& allowed,
             const std::string& label = "") {
    compare_with(name, actual.shape, to_double(actual), allowed, label);
  }
  /// Compares a number of the description.
  void check(const std::string& name, double actual, double expected, double relative) {
    checks_.push_back(compare(name, {actual}, {expected}, 1, Tolerance{.relative = relative}));
  }
  /// Checks a behaviour of posenc that the reference lacks. A failure counts as an error of 1.
  void holds(const std::string& behaviour, bool does) {
    checks_.push_back({behaviour, does ? 0.0 : 1.0, 0, does});
  }

  const std::vector<Check>& checks() const { return checks_; }
  /// Returns the failed comparisons as text.
  std::string failures() const;
  /// Returns the results that were not computed, or else the inputs that were not read; empty if
  /// there are none.
  std::string left_over() const;

 private:
  struct Tensor {
    std::string dtype, role;
    std::vector<Index> shape;
    std::filesystem::path file;
    std::optional<double> reference_error;  ///< max_abs_diff_vs_f64 of the data
    std::optional<support::Npy> content;
  };

  void add_file(const std::string& name, const Json& entry, const std::filesystem::path& directory);
  void add_inline(const std::string& name, const Json& values);
  const Tensor& find(const std::string& name) const;
  const support::Npy& load(const std::string& name);
  bool has_role(const std::string& name, std::initializer_list<const char*> roles) const;
  bool any_role(const std::string& role) const;
  std::optional<std::string> twin_of(const std::string& name) const;
  double reference_error(const std::string& name);
  Tolerance float_tolerance(const std::string& name, Kind kind);
  Tolerance double_tolerance() const;
  void compare_with(const std::string& name, const std::vector<Index>& shape,
                    const std::vector<double>& actual, const Allowed& allowed,
                    const std::string& label = "");

  template <class T>
  static std::vector<double> to_double(const Array<T>& array) {
    std::vector<double> values;
    values.reserve(static_cast<std::size_t>(array.size()));
    for (const T& value : array.data) values.push_back(static_cast<double>(value));
    return values;
  }
  template <class T, class Value>
  static T element(Value value) {
    if constexpr (std::same_as<T, bool>) {
      return value != 0;
    } else if constexpr (posenc::Float16<T>) {
      return static_cast<T>(static_cast<float>(value));
    } else {
      return static_cast<T>(value);
    }
  }

  std::string name_;
  Json description_, parameters_;
  std::string feature_;
  std::map<std::string, Tensor> tensors_;
  std::set<std::string> read_, checked_, known_words_, known_parameters_;
  std::vector<Check> checks_;
  double reach_ = 0;
};

/// Calls f<float>() and f<double>().
template <class F>
void in_both_precisions(const F& f) {
  f.template operator()<float>();
  f.template operator()<double>();
}

}  // namespace conformance
