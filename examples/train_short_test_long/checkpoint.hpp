// SPDX-License-Identifier: MIT
#pragma once

#include "adam.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace study {

/// Writes what training needs to go on with the same bits. `settings` say what it belongs to.
///   Throws: tour::FileError
void save(const std::filesystem::path& path, const std::string& settings,
          const TrainingState& state);

/// Nothing where there is no such file.
///   Throws: tour::FileError where it is of other settings, or broken
std::optional<TrainingState> load(const std::filesystem::path& path, const std::string& settings);

}  // namespace study
