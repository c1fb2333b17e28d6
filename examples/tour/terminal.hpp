// SPDX-License-Identifier: MIT
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace tour {

/// Table of text, for the terminal and the page. Every row has as many cells as the header.
struct Table {
  std::string title;
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
};

/// Lays out the report as plain text, 100 columns wide.
class Terminal {
 public:
  explicit Terminal(std::ostream& out) : out_(out) {}

  void chapter(const std::string& title);
  void section(const std::string& title);
  void paragraph(const std::string& text);
  void verbatim(const std::string& text);
  /// Prints the name of a file on a separate line, so that it is not wrapped.
  void file(const std::string& what, const std::string& name);
  void table(const Table& table);

 private:
  std::ostream& out_;
};

}  // namespace tour
