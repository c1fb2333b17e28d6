// SPDX-License-Identifier: MIT
#pragma once

#include "adam.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace study {

/// Writes the state that training needs to continue with the same bits. `settings` identify the
/// run.
///   Throws: tour::FileError
void save(const std::filesystem::path& path, const std::string& settings,
          const TrainingState& state);

/// Returns the state; nothing if there is no such file.
///   Throws: tour::FileError if it has other settings, or is broken
std::optional<TrainingState> load(const std::filesystem::path& path, const std::string& settings);

}  // namespace study
