// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace tour {

/// A table of text, for the terminal and the page. Every row has as many cells as the header.
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
  void table(const Table& table);

 private:
  std::ostream& out_;
};

/// Says what is being worked on, "[ 7/24] Spectrum".
class Progress {
 public:
  Progress(std::ostream& out, std::size_t steps) : out_(out), steps_(steps) {}

  void begin(const std::string& title);

 private:
  std::ostream& out_;
  std::size_t steps_;
  std::size_t step_ = 0;
};

}  // namespace tour
