// SPDX-License-Identifier: MIT
#pragma once

#include "gnuplot.hpp"
#include "terminal.hpp"

#include <cstddef>
#include <filesystem>
#include <ostream>
#include <string>

namespace tour {

/// What the tour, or a study, has to say: printed as it comes, and kept for one page that needs no network.
class Report {
 public:
  /// sections: how many there will be, which headings in the terminal tell.
  Report(std::ostream& terminal, const Gnuplot& gnuplot, std::size_t sections)
      : terminal_(terminal), gnuplot_(gnuplot), all_sections_(sections) {}

  void chapter(const std::string& title);
  void section(const std::string& title);

  /// What stands between backticks is code.
  void paragraph(const std::string& text);

  /// Text as it stands: an error message, say.
  void verbatim(const std::string& text);

  /// Cells that begin with "yes" or "no" are coloured.
  void table(const Table& table);

  /// Draws a figure; the caption says what to see and the number that proves it. Under it stand the
  /// lines of the sources that are marked with the figure's name.
  void picture(const Figure& figure, const std::string& caption);

  /// Writes the page. Throws FileError.
  void write(const std::filesystem::path& path, const std::string& title) const;

  /// Pictures that were drawn, and those that gnuplot failed on.
  int drawn() const { return drawn_; }
  int failed() const { return failed_; }

 private:
  Terminal terminal_;
  const Gnuplot& gnuplot_;
  std::size_t all_sections_;
  std::string contents_, body_;
  std::size_t sections_ = 0;
  int chapters_ = 0, drawn_ = 0, failed_ = 0;
};

}  // namespace tour
