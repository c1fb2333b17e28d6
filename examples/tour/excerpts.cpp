// SPDX-License-Identifier: MIT
#include "excerpts.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <stdexcept>

namespace tour {

namespace {

/// Returns the lines without the indentation of the first one.
std::string unindented(const std::string& code) {
  const std::size_t indent = std::min(code.find_first_not_of(' '), code.size());
  std::istringstream lines(code);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t spaces = std::min(line.find_first_not_of(' '), line.size());
    if (spaces < line.size()) result += line.substr(std::min(indent, spaces)) + "\n";
  }
  return result;
}

}  // namespace

std::string code_of(const std::string& picture) {
  std::map<std::string, std::string> parts;
  for (const Excerpt& excerpt : excerpts()) {
    const std::string& name = excerpt.name;
    if (name == picture || name.starts_with(picture + " ")) parts[name] += unindented(excerpt.code);
  }
  std::string code;
  for (const auto& part : parts) code += part.second;
  if (code.empty()) throw std::logic_error("no lines are marked as the code of " + picture);
  return code;
}

}  // namespace tour
