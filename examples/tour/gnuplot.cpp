// SPDX-License-Identifier: MIT
#include "gnuplot.hpp"

#include "files.hpp"
#include "numbers.hpp"

#include <cmath>
#include <cstdlib>
#include <iomanip>
#include <utility>

namespace tour {

namespace {

/// Returns the blocks as text, each after a comment with its name, as gnuplot's `index` needs it.
std::string data_text(const std::vector<Block>& blocks) {
  std::ostringstream out;
  out << std::setprecision(8);
  for (const Block& block : blocks) {
    out << "# " << block.name << '\n';
    for (Eigen::Index r = 0; r < block.rows.rows(); ++r) {
      for (Eigen::Index c = 0; c < block.rows.cols(); ++c) {
        out << (c == 0 ? "" : " ") << block.rows(r, c);
      }
      out << '\n';
    }
    out << "\n\n";
  }
  return out.str();
}

/// Returns the script. Colours of lines are those of Okabe and Ito (2008).
std::string script_text(const Figure& figure) {
  return cat("# Run in this folder: gnuplot ", figure.name, ".gp\n", "set terminal svg size ",
             figure.width, ",", figure.height,
             " standalone enhanced background '#ffffff' font 'sans-serif,14'\n", "set output '",
             figure.name, ".svg'\n", "data = '", figure.name, ".dat'\n",
             R"(set border linewidth 0.7 linecolor '#444444'
set tics out nomirror scale 0.6
set xtics offset 0,0.2
set xlabel offset 0,0.4
set ylabel offset 0.8,0
set key noenhanced
set linetype 1 lw 2 pt 7 lc '#0072b2'
set linetype 2 lw 2 pt 5 lc '#d55e00'
set linetype 3 lw 2 pt 9 lc '#009e73'
set linetype 4 lw 2 pt 11 lc '#cc79a7'
set linetype 5 lw 2 pt 13 lc '#e69f00'
set linetype 6 lw 2 pt 4 lc '#56b4e9'
set linetype 7 lw 2 pt 6 lc '#000000'
)",
             figure.commands);
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// Disables the blur of enlarged images in browsers, because heatmaps are small images.
std::string with_sharp_images(std::string svg) {
  const std::string plain = "<image ", sharp = "<image style='image-rendering:pixelated' ";
  for (auto at = svg.find(plain); at != std::string::npos;
       at = svg.find(plain, at + sharp.size())) {
    svg.replace(at, plain.size(), sharp);
  }
  return svg;
}

}  // namespace

Gnuplot::Gnuplot(std::filesystem::path folder)
    : folder_(std::move(folder)),
      installed_(std::system("gnuplot --version > /dev/null 2>&1") == 0) {
  make_folder(folder_);
}

std::string Gnuplot::draw(const Figure& figure) const {
  const auto file = [&](const char* extension) { return folder_ / (figure.name + extension); };
  write_file(file(".dat"), data_text(figure.blocks));
  write_file(file(".gp"), script_text(figure));
  if (!installed_) return "";
  // In the C locale gnuplot passes text through, so UTF-8 stays valid.
  const std::string command =
      cat("cd -- ", quoted(folder_.string()), " && LC_ALL=C gnuplot ", figure.name, ".gp");
  if (std::system(command.c_str()) != 0) return "";
  const std::string svg = with_sharp_images(read_file(file(".svg")));
  write_file(file(".svg"), svg);
  return svg;
}

std::string magnitude_palette() {
  return R"(set palette defined (0 '#440154', 1 '#472d7b', 2 '#3b528b', 3 '#2c728e', 4 '#21918c', \
  5 '#28ae80', 6 '#5ec962', 7 '#addc30', 8 '#fde725')
)";
}

double largest_size(const Eigen::MatrixXd& values) { return values.cwiseAbs().maxCoeff(); }

std::string symmetric_colours(double size) {
  const double step = std::pow(10, std::floor(std::log10(size))) / 2;
  const double end = std::ceil(size / step) * step;
  return cat("set cbrange [", -end, ":", end, "]\n");
}

std::string signed_palette() {
  return R"(set palette defined (0 '#08306b', 1 '#2171b5', 2 '#9ecae1', 3 '#f7f7f7', \
  4 '#fdae6b', 5 '#d94801', 6 '#7f2704')
)";
}

}  // namespace tour
