// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>

namespace tour {

/// The whole file. Throws FileError.
std::string read_file(const std::filesystem::path& path);

/// Throws FileError.
void write_file(const std::filesystem::path& path, const std::string& content);

/// Makes the folder and those above it. Throws FileError.
void make_folder(const std::filesystem::path& path);

}  // namespace tour
