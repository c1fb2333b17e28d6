// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/interop/model_settings.hpp>

#include <string>
#include <vector>

namespace inspect {

/// Member of a settings struct as text. Equal texts mean equal values. A list has one text per
/// element, an optional without value none.
struct Field {
  std::string name;
  std::vector<std::string> values;
  bool is_list = false;
};

/// Returns a field as text; a long list by its first and last elements.
std::string shown(const Field& field);

/// Returns "first | second"; for lists, from their first difference on. Empty if they are equal.
std::string difference(const Field& first, const Field& second);

// Lists of all members of the structs. A member that is missing here is a compile error.

/// Returns the name of a rule's type: "YarnScaling".
std::string name_of(const posenc::RotaryRule& rule);
std::vector<Field> fields(const posenc::RotaryRule& rule);
std::vector<Field> fields(const posenc::RotarySettings& settings);  ///< rule as its name only
std::vector<Field> fields(
    const posenc::ModelSettings& model);  ///< layers as their types, tower as its own
std::vector<Field> fields(const posenc::VisionSettings& tower);

}  // namespace inspect
