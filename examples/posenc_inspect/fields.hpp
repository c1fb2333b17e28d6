// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/interop/model_settings.hpp>

#include <string>
#include <vector>

namespace inspect {

/// A member of a settings struct in words, exactly: equal words are equal values. A list has one
/// text an element, an optional without value none.
struct Field {
  std::string name;
  std::vector<std::string> values;
  bool is_list = false;
};

/// The words of a field; a long list by its ends.
std::string shown(const Field& field);

/// "first  |  second"; of lists, where they begin to differ. Empty where they are equal.
std::string difference(const Field& first, const Field& second);

// All members of the structs. A member that is added to a struct and not here does not compile.

/// "YarnScaling"
std::string name_of(const posenc::RotaryRule& rule);
std::vector<Field> fields(const posenc::RotaryRule& rule);
std::vector<Field> fields(const posenc::RotarySettings& settings);  ///< the rule by its name
std::vector<Field> fields(
    const posenc::ModelSettings& model);  ///< layers by their types, the tower by its
std::vector<Field> fields(const posenc::VisionSettings& tower);

}  // namespace inspect
