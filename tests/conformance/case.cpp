// SPDX-License-Identifier: MIT
#include "conformance/case.hpp"

#include <cctype>
#include <cmath>

namespace conformance {
namespace {

std::vector<std::string> words_of(const std::string& feature) {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : feature) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    if (letter && !inside) words.emplace_back();
    if (letter) words.back() += c;
    inside = letter;
  }
  return words;
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void append(std::string& list, const std::string& item) {
  list += (list.empty() ? "" : ", ") + item;
}

bool is_numbers(const Json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(),
                     [](const Json& item) { return item.is_number() || is_numbers(item); });
}

void flatten(const Json& value, std::vector<double>& values) {
  if (value.is_number()) {
    values.push_back(value.get<double>());
  } else {
    for (const Json& item : value) flatten(item, values);
  }
}

}  // namespace

Case::Case(std::string name, Json description, const std::filesystem::path& directory)
    : name_(std::move(name)), description_(std::move(description)), parameters_(Json::object()) {
  if (!description_.is_object()) throw Malformed("the description is not a JSON object");
  feature_ = description_.value("feature", description_.value("op", ""));
  for (const char* key : {"params", "args", "attributes_with_defaults", "attributes"}) {
    if (description_.contains(key) && description_[key].is_object()) {
      parameters_ = description_[key];
      break;
    }
  }
  if (directory.empty()) {
    for (const auto& [key, value] : description_.items()) {
      if (is_numbers(value)) add_inline(key, value);
    }
  } else if (description_.contains("tensors")) {
    for (const auto& [key, value] : description_.at("tensors").items()) {
      add_file(key, value, directory);
    }
  }
}

void Case::add_file(const std::string& name, const Json& entry,
                    const std::filesystem::path& directory) {
  Tensor tensor;
  tensor.dtype = entry.at("dtype").get<std::string>();
  tensor.role = entry.at("role").get<std::string>();
  tensor.shape = entry.at("shape").get<std::vector<Index>>();
  tensor.file = directory / entry.at("file").get<std::string>();
  if (entry.contains("max_abs_diff_vs_f64")) {
    tensor.reference_error = entry.at("max_abs_diff_vs_f64").get<double>();
  }
  tensors_[name] = std::move(tensor);
}

void Case::add_inline(const std::string& name, const Json& values) {
  Tensor tensor;
  support::Npy content;
  for (const Json* axis = &values; axis->is_array(); axis = &axis->front()) {
    content.shape.push_back(static_cast<Index>(axis->size()));
  }
  flatten(values, content.values);
  if (content.size() != static_cast<Index>(content.values.size())) {
    throw Malformed("the array " + name + " is ragged");
  }
  tensor.dtype = "float64";
  tensor.role = name == "positions"       ? "input"
                : ends_with(name, "_f64") ? "expected_f64"
                                          : "expected";
  tensor.shape = content.shape;
  tensor.content = std::move(content);
  tensors_[name] = std::move(tensor);
}

bool Case::is_about(const std::string& word) const {
  const auto words = words_of(feature_);
  return std::find(words.begin(), words.end(), word) != words.end();
}

void Case::knows(std::initializer_list<const char*> words,
                 std::initializer_list<const char*> parameters) {
  known_words_.insert(words.begin(), words.end());
  known_parameters_.insert(parameters.begin(), parameters.end());
}

void Case::knows_feature(std::initializer_list<const char*> parameters) {
  const auto words = words_of(feature_);
  known_words_.insert(words.begin(), words.end());
  known_parameters_.insert(parameters.begin(), parameters.end());
}

std::string Case::unknown() const {
  std::string unknown;
  for (const std::string& word : words_of(feature_)) {
    if (known_words_.count(word) == 0) append(unknown, "'" + word + "' in the feature");
  }
  for (const auto& [key, value] : parameters_.items()) {
    if (!value.is_null() && known_parameters_.count(key) == 0) {
      append(unknown, "parameter '" + key + "'");
    }
  }
  return unknown;
}

std::optional<std::string> Case::first_expected(const std::vector<std::string>& names) const {
  for (const std::string& name : names) {
    if (expects(name) || twin_of(name)) return name;
  }
  return std::nullopt;
}

const Case::Tensor& Case::find(const std::string& name) const {
  const auto at = tensors_.find(name);
  if (at == tensors_.end()) throw Malformed("there is no tensor " + name);
  return at->second;
}

const support::Npy& Case::load(const std::string& name) {
  find(name);
  Tensor& tensor = tensors_.at(name);
  if (!tensor.content) tensor.content = support::read_npy(tensor.file.string());
  if (tensor.content->shape != tensor.shape) {
    throw Malformed("tensor " + name + " has another shape than its description says");
  }
  return *tensor.content;
}

bool Case::has_role(const std::string& name, std::initializer_list<const char*> roles) const {
  const auto at = tensors_.find(name);
  return at != tensors_.end() &&
         std::find(roles.begin(), roles.end(), at->second.role) != roles.end();
}

bool Case::any_role(const std::string& role) const {
  return std::any_of(tensors_.begin(), tensors_.end(),
                     [&](const auto& entry) { return entry.second.role == role; });
}

/// Returns the name of the reference's double result for a float result.
std::optional<std::string> Case::twin_of(const std::string& name) const {
  std::vector<std::string> names{name, name + "_f64"};
  if (name.rfind("output_", 0) == 0) names.push_back("output64_" + name.substr(7));
  for (const std::string& twin : names) {
    if (has_role(twin, {"expected_f64"})) return twin;
  }
  return std::nullopt;
}

/// Returns the distance of the reference's float result from its double one; if a result does not
/// state it, the largest of the case.
double Case::reference_error(const std::string& name) {
  if (const auto& error = find(name).reference_error) return *error;
  if (const auto in_double = twin_of(name)) {
    return support::max_abs_difference(load(name).values, load(*in_double).values);
  }
  double largest = 0;
  for (const auto& [other, tensor] : tensors_) {
    largest = std::max(largest, tensor.reference_error.value_or(0));
  }
  return largest;
}

Tolerance Case::float_tolerance(const std::string& name, Kind kind) {
  // An encoding has small errors, so the distance is the reference's error. Sums have errors of
  // their own, larger than those of sums in several lanes.
  const double multiple = kind == Kind::Encoding ? 2 : 8;
  Tolerance tolerance{.least = multiple * reference_error(name), .row_ulps = 4};
  if (description_.contains("tolerance")) {
    tolerance.relative = description_.at("tolerance").at("rtol").get<double>();
    tolerance.absolute = description_.at("tolerance").at("atol").get<double>();
  }
  return tolerance;
}

/// Returns the tolerance that the data's description states for its double results.
Tolerance Case::double_tolerance() const {
  const double base = reach_ <= 8192     ? 1e-11
                      : reach_ <= 131072 ? 1e-9
                                         : 1e-8 * std::max(1.0, reach_ / 16777216);
  return {.least = base, .row_relative = base};
}

void Case::compare_with(const std::string& name, const std::vector<Index>& shape,
                        const std::vector<double>& actual, const Allowed& allowed,
                        const std::string& label) {
  const support::Npy& expected = load(name);
  if (shape != expected.shape || actual.size() != expected.values.size()) {
    throw Malformed("result " + name + " does not have the expected one's shape and type");
  }
  // The float run of a double tensor is additional: the tensor must also be checked in double.
  if (label.empty()) checked_.insert(name);
  const auto row_size = static_cast<std::size_t>(shape.empty() ? 1 : shape.back());
  checks_.push_back(compare(label + name, actual, expected.values, row_size, allowed));
}

std::string Case::failures() const {
  std::string text;
  for (const Check& check : checks_) {
    if (!check.passed) text += (text.empty() ? "" : "; ") + in_words(check);
  }
  return text;
}

std::string Case::left_over() const {
  std::string results, inputs;
  for (const auto& [name, tensor] : tensors_) {
    const bool result = tensor.role == "expected" || tensor.role == "expected_f64";
    const bool input = tensor.role == "input" || tensor.role == "weight";
    if (result && checked_.count(name) == 0) append(results, name);
    if (input && read_.count(name) == 0) append(inputs, name);
  }
  if (!results.empty()) return "nothing computes " + results;
  return inputs.empty() ? "" : "nothing uses " + inputs;
}

}  // namespace conformance
