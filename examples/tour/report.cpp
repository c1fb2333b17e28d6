// SPDX-License-Identifier: MIT
#include "report.hpp"

#include "excerpts.hpp"
#include "files.hpp"
#include "html.hpp"
#include "numbers.hpp"

namespace tour {

namespace {

std::string without_backticks(std::string text) {
  std::erase(text, '`');
  return text;
}

std::string table_cell(const std::string& tag, const std::string& text) {
  const bool yes = text.starts_with("yes"), no = text == "no" || text.starts_with("no,");
  return cat("<", tag,
             yes  ? " class=\"yes\""
             : no ? " class=\"no\""
                  : "",
             ">", prose(text), "</", tag, ">");
}

std::string table_row(const std::string& tag, const std::vector<std::string>& cells) {
  std::string row = "<tr>";
  for (const std::string& cell : cells) row += table_cell(tag, cell);
  return row + "</tr>\n";
}

}  // namespace

void Report::chapter(const std::string& title) {
  terminal_.chapter(title);
  contents_ += cat(chapters_++ == 0 ? "<ol>\n" : "</ol></li>\n", "<li>", escaped(title), "<ol>\n");
  body_ += cat("<h2>", escaped(title), "</h2>\n");
}

void Report::section(const std::string& title) {
  const std::string numbered = cat(++sections_, ". ", title);
  terminal_.section(cat(sections_, " of ", all_sections_, ". ", title));
  contents_ += cat("<li><a href=\"#s", sections_, "\">", escaped(numbered), "</a></li>\n");
  body_ += cat("<h3 id=\"s", sections_, "\">", escaped(numbered), "</h3>\n");
}

void Report::paragraph(const std::string& text) {
  terminal_.paragraph(without_backticks(text));
  body_ += cat("<p>", prose(text), "</p>\n");
}

void Report::verbatim(const std::string& text) {
  terminal_.verbatim(text);
  body_ += cat("<pre>", escaped(text), "</pre>\n");
}

void Report::table(const Table& table) {
  Table plain = table;
  for (auto& row : plain.rows) {
    for (std::string& cell : row) cell = without_backticks(cell);
  }
  terminal_.table(plain);
  body_ +=
      cat("<p class=\"title\">", prose(table.title), "</p>\n<div class=\"wide\"><table>\n<thead>",
          table_row("th", table.header), "</thead>\n<tbody>\n");
  for (const auto& row : table.rows) body_ += table_row("td", row);
  body_ += "</tbody></table></div>\n";
}

void Report::picture(const Figure& figure, const std::string& caption) {
  const std::string svg = gnuplot_.draw(figure);
  if (gnuplot_.installed()) ++(svg.empty() ? failed_ : drawn_);
  const std::string what = svg.empty() ? "not drawn; its script" : "picture",
                    file = figure.name + (svg.empty() ? ".gp" : ".svg");
  terminal_.paragraph(without_backticks(caption));
  terminal_.file(what, file);
  const std::string image =
      svg.empty() ? ""
                  : cat("<div class=\"wide\"><img alt=\"", escaped(figure.title),
                        "\" src=\"data:image/svg+xml;base64,", base64(svg), "\"></div>\n");
  body_ += cat("<figure id=\"", escaped(figure.name), "\">\n", image, "<figcaption>",
               prose(caption), " <small>(", what, ": ", escaped(file),
               ")</small></figcaption>\n<pre class=\"code\"><code>", escaped(code_of(figure.name)),
               "</code></pre>\n</figure>\n");
}

void Report::link(const std::string& file, const std::string& text) {
  terminal_.file(without_backticks(text), file);
  links_ += cat("<p><a href=\"", escaped(file), "\">", prose(text), "</a></p>\n");
}

void Report::write(const std::filesystem::path& path, const std::string& title) const {
  const std::string contents = chapters_ == 0 ? "" : contents_ + "</ol></li>\n</ol>\n";
  write_file(path, page(title, links_ + contents, body_, end_));
}

}  // namespace tour
