// SPDX-License-Identifier: MIT
#include "terminal.hpp"

#include <algorithm>
#include <sstream>

namespace tour {

namespace {

using Lines = std::vector<std::string>;

constexpr std::size_t page_width = 100;

/// Returns the number of characters of a UTF-8 text.
std::size_t display_width(const std::string& text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// Returns lines of at most `width` characters; a longer word gets a separate line.
Lines wrap(const std::string& text, std::size_t width) {
  Lines lines(1);
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::string& line = lines.back();
    if (line.empty()) {
      line = word;
    } else if (display_width(line) + 1 + display_width(word) <= width) {
      line += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

std::size_t longest_word(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream words(text);
  for (std::string word; words >> word;) longest = std::max(longest, display_width(word));
  return longest;
}

/// Returns column widths that fit the page. The widest columns are narrowed, down to their longest
/// word.
std::vector<std::size_t> column_widths(const Table& table) {
  std::vector<std::size_t> widths, narrowest;
  for (std::size_t c = 0; c < table.header.size(); ++c) {
    std::size_t width = display_width(table.header[c]), word = longest_word(table.header[c]);
    for (const auto& row : table.rows) {
      width = std::max(width, display_width(row[c]));
      word = std::max(word, longest_word(row[c]));
    }
    widths.push_back(width);
    narrowest.push_back(word);
  }
  std::size_t total = 2 * widths.size();
  for (const std::size_t width : widths) total += width;
  while (total > page_width) {
    std::size_t widest = widths.size();
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const bool wider = widest == widths.size() || widths[c] > widths[widest];
      if (widths[c] > narrowest[c] && wider) widest = c;
    }
    if (widest == widths.size()) break;
    --widths[widest], --total;
  }
  return widths;
}

void print_row(std::ostream& out, const std::vector<std::string>& cells,
               const std::vector<std::size_t>& widths) {
  std::vector<Lines> columns;
  std::size_t height = 1;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    columns.push_back(wrap(cells[c], widths[c]));
    height = std::max(height, columns.back().size());
  }
  for (std::size_t line = 0; line < height; ++line) {
    std::string text;
    std::size_t column_end = 0;
    for (std::size_t c = 0; c < columns.size(); ++c) {
      text += "  ";
      if (line < columns[c].size()) text += columns[c][line];
      column_end += widths[c] + 2;
      const std::size_t used = display_width(text);
      if (c + 1 < columns.size() && used < column_end) text.append(column_end - used, ' ');
    }
    out << text.substr(0, text.find_last_not_of(' ') + 1) << '\n';
  }
}

}  // namespace

void Terminal::chapter(const std::string& title) {
  out_ << "\n"
       << std::string(page_width, '=') << "\n"
       << title << "\n"
       << std::string(page_width, '=') << "\n"
       << std::endl;
}

void Terminal::section(const std::string& title) {
  out_ << title << "\n" << std::string(display_width(title), '-') << "\n" << std::endl;
}

void Terminal::paragraph(const std::string& text) {
  for (const std::string& line : wrap(text, page_width)) out_ << line << '\n';
  out_ << std::endl;
}

void Terminal::verbatim(const std::string& text) {
  for (const std::string& line : wrap(text, page_width - 4)) out_ << "    " << line << '\n';
  out_ << std::endl;
}

void Terminal::file(const std::string& what, const std::string& name) {
  out_ << "    " << what << ": " << name << "\n" << std::endl;
}

void Terminal::table(const Table& table) {
  const std::vector<std::size_t> widths = column_widths(table);
  std::vector<std::string> rules;
  for (const std::size_t width : widths) rules.emplace_back(width, '-');
  for (const std::string& line : wrap(table.title, page_width)) out_ << line << '\n';
  print_row(out_, table.header, widths);
  print_row(out_, rules, widths);
  for (const auto& row : table.rows) print_row(out_, row, widths);
  out_ << std::endl;
}

}  // namespace tour
