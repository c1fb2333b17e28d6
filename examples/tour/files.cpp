// SPDX-License-Identifier: MIT
#include "files.hpp"

#include "error.hpp"
#include "numbers.hpp"

#include <fstream>
#include <iterator>
#include <system_error>

namespace tour {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  // A folder opens like a file; reading its first byte fails.
  if (file && file.peek() != std::ifstream::traits_type::eof()) content << file.rdbuf();
  if (!file.is_open() || file.bad() || content.bad()) {
    throw FileError(cat("cannot read the file ", path.string()));
  }
  return content.str();
}

void write_file(const std::filesystem::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file) throw FileError(cat("cannot write the file ", path.string()));
}

void make_folder(const std::filesystem::path& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error || !std::filesystem::is_directory(path, error)) {
    throw FileError(cat("cannot make the folder ", path.string(),
                        error ? ": " + error.message() : ": a file of that name is there"));
  }
}

}  // namespace tour
