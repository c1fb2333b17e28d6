// SPDX-License-Identifier: MIT
#pragma once

#include "gnuplot.hpp"
#include "terminal.hpp"

#include <cstddef>
#include <filesystem>
#include <ostream>
#include <string>

namespace tour {

/// Report of the tour, or of a study: printed immediately, and kept for one page that needs no
/// network.
class Report {
 public:
  /// sections: number of sections, for the headings in the terminal
  Report(std::ostream& terminal, const Gnuplot& gnuplot, std::size_t sections)
      : terminal_(terminal), gnuplot_(gnuplot), all_sections_(sections) {}

  void chapter(const std::string& title);
  void section(const std::string& title);

  /// Adds a paragraph. Text between backticks is code.
  void paragraph(const std::string& text);

  /// Adds a text unchanged, such as an error message.
  void verbatim(const std::string& text);

  /// Adds a table. Cells that begin with "yes" or "no" are coloured.
  void table(const Table& table);

  /// Draws a figure. The caption states what to see and the number that proves it. The source lines
  /// that are marked with the figure's name are shown below it.
  void picture(const Figure& figure, const std::string& caption);

  /// Adds HTML to the end of the page. It can find the picture of a figure by its name as an id.
  void end_with(const std::string& html) { end_ += html; }

  /// Adds a link to a page in the same folder, before the contents.
  void link(const std::string& file, const std::string& text);

  /// Writes the page. Throws FileError.
  void write(const std::filesystem::path& path, const std::string& title) const;

  /// Returns the number of pictures drawn, and of those that gnuplot failed on.
  int drawn() const { return drawn_; }
  int failed() const { return failed_; }

 private:
  Terminal terminal_;
  const Gnuplot& gnuplot_;
  std::size_t all_sections_;
  std::string links_, contents_, body_, end_;
  std::size_t sections_ = 0;
  int chapters_ = 0, drawn_ = 0, failed_ = 0;
};

}  // namespace tour
