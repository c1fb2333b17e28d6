// SPDX-License-Identifier: MIT
// RoPE on more than one axis: the cells of an image, and prompts of text and images.
#include "chapters.hpp"
#include "encode.hpp"
#include "numbers.hpp"
#include <posenc/interop/grid_presets.hpp>
#include <posenc/interop/multimodal_axes.hpp>
#include <posenc/interop/prompt_positions.hpp>
#include <posenc/posenc.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <type_traits>
#include <vector>

namespace tour::grid_rope {

namespace {

constexpr Index side = 15, centre = side / 2, grid_dim = 64;

using Rope = posenc::Rope<posenc::Interleaved>;

/// Returns the scores of one cell with all cells, divided by its own; every query and key is all
/// ones.
Eigen::MatrixXd scores_on_grid(const Rope& rope, const posenc::Positions& positions, Index row,
                               Index col) {
  // excerpt: rope_grid 2
  Matrix x = Matrix::Ones(side * side, grid_dim);
  rope.rotate(posenc::split_heads(posenc::sd(x), 1), positions);  // one row per cell
  const Eigen::VectorXd scores = (x * x.row(row * side + col).transpose()).cast<double>();
  // end of excerpt
  const Eigen::VectorXd shares = scores / static_cast<double>(grid_dim);
  return Eigen::Map<const Eigen::Matrix<double, side, side, Eigen::RowMajor>>(shares.data());
}

Figure grid_picture(const Eigen::MatrixXd& raster, const Eigen::MatrixXd& axial) {
  Figure figure{.name = "rope_grid",
                .title =
                    "Scores of the middle cell of a grid with all cells, for RoPE on one axis "
                    "and on two",
                .width = 920,
                .height = 460,
                .blocks = {{"raster", raster}, {"axial", axial}}};
  const double lowest = std::floor(10 * std::min(raster.minCoeff(), axial.minCoeff())) / 10;
  figure.commands = magnitude_palette() + cat("set cbrange [", lowest, ":1]\n") +
                    R"(set multiplot layout 1,2 margins 0.07,0.86,0.15,0.83 spacing 0.07,0 \
  title 'RoPE, 64 channels, all 1: score of the middle cell (circle) with every cell'
unset key
set xrange [-0.5:14.5]
set yrange [14.5:-0.5]
set size ratio -1
set xtics 2
set ytics 2
set xlabel 'column'
set ylabel 'row'
set object 1 circle at 7,7 size 0.3 front fs empty border lc '#000000'
unset colorbox
set title 'one axis, base 10,000: cells counted row by row' offset 0,-0.4
plot data index 'raster' matrix with image
set colorbox user origin 0.885,0.15 size 0.018,0.68
set cblabel 'score / score of the cell with itself'
unset ylabel
set title 'two axes, base 100: row and column' offset 0,-0.4
plot data index 'axial' matrix with image
unset multiplot
)";
  return figure;
}

/// Returns the figure of M-RoPE: the axis of each pair, and t, h, w of each token.
Figure mrope_picture(const Eigen::MatrixXd& axes, const Eigen::MatrixXd& positions) {
  Figure figure{
      .name = "mrope",
      .title = "Axis that rotates each pair of M-RoPE, and the three positions of each token",
      .width = 960,
      .height = 520,
      .blocks = {{"axes", axes}, {"positions", positions}}};
  figure.commands = R"(set multiplot
set lmargin at screen 0.17
set rmargin at screen 0.86
set tmargin at screen 0.93
set bmargin at screen 0.72
set title 'The axis that rotates each of 64 pairs' offset 0,-0.4
set xrange [-0.5:63.5]
set yrange [1.5:-0.5]
set xtics 8
set ytics ('chunked' 0, 'interleaved' 1) scale 0
set xlabel 'pair'
set palette maxcolors 3
set palette defined (0 '#0072b2', 1 '#e69f00', 2 '#009e73')
set cbrange [-0.5:2.5]
set cbtics ('t, time' 0, 'h, row' 1, 'w, column' 2) scale 0
set colorbox user origin 0.875,0.72 size 0.018,0.21
unset key
plot data index 'axes' matrix with image
unset colorbox
set lmargin at screen 0.17
set rmargin at screen 0.86
set tmargin at screen 0.53
set bmargin at screen 0.12
set title 'Positions of 4 tokens of text, 3 x 4 patches, 4 tokens of text (t, h, w drawn side by side)'
set xrange [-0.6:19.6]
set yrange [-0.8:12]
set xtics 1
set ytics 2
set grid lc '#dddddd'
set xlabel 'token'
set ylabel 'position'
set object 1 rectangle from 3.5,-0.8 to 15.5,12 behind fs solid 0.08 noborder fc '#000000'
set label 'the picture' at 9.5,11 center
set key at screen 0.985,0.5 right
plot data index 'positions' using ($0 - 0.22):1 with points ps 0.8 pt 7 lc '#0072b2' title 't', \
  '' index 'positions' using 0:2 with points ps 0.8 pt 5 lc '#e69f00' title 'h', \
  '' index 'positions' using ($0 + 0.22):3 with points ps 0.9 pt 9 lc '#009e73' title 'w'
unset multiplot
)";
  return figure;
}

/// Returns a table of models of images and videos: what rotates their pairs.
Table models_on_grids() {
  Table table{
      "Models with tokens on grids", {"model", "pairs of each axis", "pairing", "positions"}, {}};
  for (const posenc::GridPreset& preset : posenc::presets::grid_presets()) {
    const posenc::PairAxes& axes = preset.rope.axes();
    std::vector<Index> pairs(static_cast<std::size_t>(axes.axis_count()));
    for (Index pair = 0; pair < axes.pairs(); ++pair) {
      ++pairs[static_cast<std::size_t>(axes.axis(pair))];
    }
    std::string text;
    for (const Index count : pairs) text += cat(text.empty() ? "" : ", ", count);
    const std::string pairing = preset.rope.visit([]<class R>(const R&) -> std::string {
      if (std::is_same_v<R, posenc::ChatGlmRope>) return "half, inside each half of the head";
      return std::is_same_v<R, Rope> ? "interleaved" : "half";
    });
    table.rows.push_back({preset.name, text, pairing, cat('`', preset.positions, '`')});
  }
  return table;
}

}  // namespace

void show(Tour& tour) {
  // excerpt: rope_grid 1
  const Rope one_axis(posenc::Unscaled{.rotary_dim = grid_dim, .base = 10000});
  const Rope two_axes(posenc::rope_vit_axial({.head_dim = grid_dim, .base = 100}));
  const auto counted = posenc::Positions::range(0, side * side);
  const auto cells = posenc::xy_grid(side, side);
  // end of excerpt
  const Eigen::MatrixXd raster = scores_on_grid(one_axis, counted, centre, centre);
  const Eigen::MatrixXd axial = scores_on_grid(two_axes, cells, centre, centre);

  // Equal differences of rows and columns, seen from another cell.
  const Eigen::MatrixXd other = scores_on_grid(two_axes, cells, centre - 2, centre + 3);
  const double moved =
      (axial.block(2, 0, side - 2, side - 3) - other.block(0, 3, side - 2, side - 3))
          .cwiseAbs()
          .maxCoeff();
  tour.report.paragraph(
      "The patches of an image can be counted row by row, but then the distance to the cell below "
      "is the length of a row. With two axes one half of the pairs is rotated by the row, the "
      "other by "
      "the column, each half with separate frequencies. Here the one axis has base 10,000, as in "
      "language models, and the two axes base 100, as in RoPE-ViT for short grids.");
  tour.report.picture(
      grid_picture(raster, axial),
      cat("With one axis the cell to the right scores ", fixed(raster(centre, centre + 1), 2),
          " and the one below, though as near, ", fixed(raster(centre + 1, centre), 2),
          ". With two axes it is ", fixed(axial(centre, centre + 1), 2), " and ",
          fixed(axial(centre + 1, centre), 2),
          ". The bright cross on the right is the row and the column of the middle cell. A cell of "
          "the same row differs in the column only. The half of the pairs that the row rotates "
          "then "
          "contributes its full share at any distance; in the same column it is the other half. "
          "Only "
          "the differences of rows and of columns matter: moved by 2 rows and 3 columns, "
          "the scores differ by at most ",
          scientific(moved), "."));
  tour.report.paragraph(
      "Vision towers, and transformers that generate images and videos, differ in the pairs of "
      "each "
      "axis, in frequencies, and in the origin of positions: patch centres, the middle, or the end "
      "of "
      "a caption.");
  tour.report.table(models_on_grids());
}

void show_mrope(Tour& tour) {
  // excerpt: mrope
  const auto chunked = posenc::mrope_chunked({16, 24, 24});  // Qwen2-VL
  const auto interleaved = posenc::mrope_interleaved({24, 20, 20}, posenc::MropeTail::Time);
  const auto prompt = posenc::prompt_positions({{.text = 4}, {.rows = 3, .cols = 4}, {.text = 4}});
  // end of excerpt
  Eigen::MatrixXd axes(2, 64);
  std::array<Index, 3> turned{};  // pairs of each axis in the interleaved table
  for (Index pair = 0; pair < 64; ++pair) {
    axes.col(pair) << static_cast<double>(chunked.axis(pair)),
        static_cast<double>(interleaved.axis(pair));
    ++turned[static_cast<std::size_t>(interleaved.axis(pair))];
  }
  const posenc::Positions& positions = prompt.positions;
  Eigen::MatrixXd rows(positions.count(), 3);
  for (Index s = 0; s < positions.count(); ++s) {
    for (Index axis = 0; axis < 3; ++axis) rows(s, axis) = positions.at(0, s, axis);
  }
  const Index last_of_text = 3, after = 4 + 3 * 4;
  Report& report = tour.report;
  report.paragraph(
      "A model of text and images gives every token three positions: time t, row h and column w. "
      "Each "
      "pair of channels is rotated by one of them. For text all three are equal, so M-RoPE is "
      "plain "
      "RoPE there. An image has one time, and its patches differ in row and column.");
  report.picture(
      mrope_picture(axes, rows),
      cat("Above: Qwen2-VL uses the fastest 16 pairs for time, 24 for rows and 24 for columns; "
          "Qwen3-VL alternates the axes (",
          turned[0], ", ", turned[1], ", ", turned[2],
          "), so that each axis has fast and slow pairs. Below: the three positions of a token are "
          "drawn "
          "side by side, t left and w right, so that equal ones stay visible. The text before the "
          "image ends "
          "at position ",
          rows(last_of_text, 0), "; the patches of the image are at t = ", rows(4, 0),
          ", h = ", rows(4, 1), " to ", rows(after - 1, 1), " and w = ", rows(4, 2), " to ",
          rows(after - 1, 2), "; the text after it continues at ", rows(after, 0),
          ", one above the largest. So ", after - 4, " patches take ", rows(after, 0) - rows(4, 0),
          " positions."));
}

}  // namespace tour::grid_rope
