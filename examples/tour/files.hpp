// SPDX-License-Identifier: MIT
#pragma once

#include <filesystem>
#include <string>

namespace tour {

/// Returns the content of a file. Throws FileError.
std::string read_file(const std::filesystem::path& path);

/// Writes a file. Throws FileError.
void write_file(const std::filesystem::path& path, const std::string& content);

/// Creates a folder and its parents. Throws FileError.
void make_folder(const std::filesystem::path& path);

}  // namespace tour
