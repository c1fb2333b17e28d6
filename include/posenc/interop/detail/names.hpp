// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <algorithm>
#include <string_view>

POSENC_BEGIN
namespace detail {

/// Calls f(name) for each name of a list separated by spaces.
template <class F>
constexpr void for_each_name(std::string_view names, const F& f) {
  while (!names.empty()) {
    const std::size_t end = (std::min)(names.find(' '), names.size());
    if (end > 0) f(names.substr(0, end));
    names.remove_prefix((std::min)(end + 1, names.size()));
  }
}

/// True if a list, as in for_each_name(), contains a name.
constexpr bool lists_name(std::string_view names, std::string_view name) {
  bool is_listed = false;
  for_each_name(names, [&](std::string_view one) { is_listed = is_listed || one == name; });
  return is_listed;
}

/// Returns the row of a table that lists a name, or nullptr.
template <class Rows>
constexpr auto find_row(const Rows& rows, std::string_view name) -> decltype(rows.data()) {
  for (const auto& row : rows) {
    if (lists_name(row.names, name)) return &row;
  }
  return nullptr;
}

/// Model types that are known and not supported.
struct UnsupportedModel {
  std::string_view names;
  std::string_view has;     ///< position encoding or layers, as a noun phrase for messages
  bool has_rotary = false;  ///< a rotary encoding in an unsupported form
};

}  // namespace detail
POSENC_END
