// SPDX-License-Identifier: MIT
// Sinusoidal encoding: in one dimension, on a grid, and as a path in space.
#include "chapters.hpp"
#include "encode.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <Eigen/Eigenvalues>

#include <algorithm>
#include <array>
#include <cmath>

namespace tour::sinusoidal {

namespace {

posenc::Sinusoidal paper_encoding() {
  // excerpt: sinusoidal_heatmap
  const posenc::Sinusoidal encoding(
      {.model_dim = model_dim, .layout = posenc::SinusoidalLayout::Interleaved, .base = 10000});
  // end of excerpt
  return encoding;
}

Figure heatmap(const Matrix& codes) {
  Figure figure{.name = "sinusoidal_heatmap",
                .title = "Heatmap of the sinusoidal encoding",
                .blocks = {{"codes", codes.cast<double>()}}};
  figure.commands =
      signed_palette() + R"(set title 'Sinusoidal encoding, 128 channels, base 10000, interleaved'
unset key
set xlabel 'channel (even: sin, odd: cos)'
set ylabel 'position'
set cblabel 'value added'
set xrange [-0.5:127.5]
set yrange [127.5:-0.5]
set xtics 16
set ytics 16
set cbrange [-1:1]
plot data index 'codes' matrix with image
)";
  return figure;
}

/// Positions 0 .. 127 in steps of 1/8; the encoding is defined between tokens too.
constexpr Index fine_steps = 8, fine_count = (sample_length - 1) * fine_steps + 1;

posenc::Positions fine_positions() {
  std::vector<double> at(static_cast<std::size_t>(fine_count));
  for (std::size_t n = 0; n < at.size(); ++n) at[n] = static_cast<double>(n) / fine_steps;
  return posenc::Positions::real(at);
}

Figure curves(const Matrix& fine) {
  Figure figure{.name = "sinusoidal_curves",
                .title = "Sine channels of the sinusoidal encoding against the position",
                .width = 860,
                .blocks = {{"codes", fine.cast<double>()}}};
  figure.commands = R"(set title 'Four sine channels of 128, base 10000 (points: whole positions)'
set xlabel 'position'
set ylabel 'value added'
set xrange [0:127]
set yrange [-1.1:1.1]
set xtics 16
set grid lc '#dddddd'
set key outside right center title 'channel'
plot for [n = 1:4] data index 'codes' using ($0 / 8):(column(word('4 16 32 64', n) + 1)) \
    with lines lt n title word('4 16 32 64', n), \
  for [n = 1:4] '' index 'codes' using 0:(column(word('4 16 32 64', n) + 1)) every 8 \
    with points lt n ps 0.35 notitle
)";
  return figure;
}

Figure grid_channels(const Eigen::MatrixXd& panels) {
  Figure figure{.name = "sinusoidal_2d",
                .title = "Channels of the two-dimensional sinusoidal encoding over a grid",
                .width = 900,
                .height = 540,
                .blocks = {{"panels", panels}}};
  figure.commands = signed_palette() +
                    R"(set multiplot layout 2,4 margins 0.075,0.875,0.12,0.86 spacing 0.03,0.1 \
  title '2-D sinusoidal encoding, 16 x 16 grid, 32 channels, base 10000, column first'
unset key
set cbrange [-1:1]
set xrange [-0.5:15.5]
set yrange [15.5:-0.5]
set xtics 5
set ytics 5
channels = '0 1 2 8 16 17 18 24'
do for [i = 1:8] {
  if (i < 5) { set xlabel ''; set format x '' } else { set xlabel 'column'; set format x '%g' }
  if (i % 4 == 1) { set ylabel 'row'; set format y '%g' } else { set ylabel ''; set format y '' }
  if (i == 4) { set cblabel 'value added'; set colorbox user origin 0.89,0.12 size 0.018,0.74 } else { unset colorbox }
  set title 'channel '.word(channels, i) offset 0,-0.6
  plot data index 'panels' matrix every :::(16 * (i - 1))::(16 * i - 1) using 1:($2 - 16 * (i - 1)):3 with image
}
unset multiplot
)";
  return figure;
}

Figure path(const Eigen::MatrixXd& points) {  // x, y, z, position
  Figure figure{.name = "path_of_positions",
                .title = "Positions as a path in three dimensions",
                .width = 760,
                .height = 560,
                .blocks = {{"path", points}}};
  figure.commands =
      magnitude_palette() +
      R"(set title 'Sinusoidal codes of positions 0 .. 127 (128 channels) in their three main directions'
unset key
set border 4095 linewidth 0.4 linecolor '#888888'
set tics textcolor '#000000'
set view 60,110,0.95,1.1
set xyplane 0
set xlabel 'direction 1'
set ylabel 'direction 2'
set zlabel 'direction 3' rotate parallel
set cblabel 'position'
set tics 2
set xtics offset 0,-0.3
set cbtics (0, 16, 32, 48, 64, 80, 96, 112, 127)
set cbrange [0:127]
set colorbox user origin 0.875,0.36 size 0.02,0.46
# Points in place of a line, because gnuplot 6 gives a line one colour; numbers stand outside the curve.
splot data index 'path' using 1:2:3:4 with points pt 7 ps 0.25 lc palette, \
  '' index 'path' using 1:2:3:4 every 128 with points pt 7 ps 0.8 lc palette, \
  '' index 'path' using (1.17 * $1):(1.17 * $2):(1.17 * $3):(sprintf('%d', $4)) every 128::128::768 with labels tc '#000000', \
  '' index 'path' using 1:2:3:(sprintf('%d', $4)) every 896 with labels left offset 0.9,0 tc '#000000'
)";
  return figure;
}

}  // namespace

void show(Tour& tour) {
  const posenc::Sinusoidal encoding = paper_encoding();
  // excerpt: sinusoidal_heatmap
  Matrix codes(sample_length, model_dim);
  encoding.write_to(posenc::sd(codes), posenc::Positions::range(0, sample_length));
  // end of excerpt
  // excerpt: sinusoidal_curves
  Matrix fine(fine_count, model_dim);
  encoding.write_to(posenc::sd(fine), fine_positions());  // 0, 1/8, 2/8, ...
  // end of excerpt

  const auto inv_freq = encoding.frequencies().inv_freq();
  const double turn = 2 * std::acos(-1.0);
  const auto wavelength = [&](std::size_t pair) { return turn / inv_freq[pair]; };
  tour.report.paragraph(
      "Channels 2i and 2i + 1 are sin(p w) and cos(p w) of the position p, with w = "
      "10000^(-2i / 128). They are like clock hands: the first makes a rotation in 6.3 positions, "
      "the "
      "last in tens of thousands. Values stay between -1 and 1.");
  const Eigen::VectorXf norms = codes.rowwise().norm();
  tour.report.picture(
      heatmap(codes),
      cat("The first channels flicker and the last hardly change: the wavelength grows from ",
          fixed(wavelength(0), 1), " positions (channel 0) to ",
          grouped(static_cast<Index>(wavelength(inv_freq.size() - 1))),
          " (channel 126). All rows have nearly the same length: ",
          fixed(static_cast<double>(norms.minCoeff()), 4), " to ",
          fixed(static_cast<double>(norms.maxCoeff()), 4), ", the square root of 64."));
  tour.report.picture(
      curves(fine),
      cat("Four of these clocks as curves. Channel 4 has a wavelength of ", fixed(wavelength(2), 1),
          " positions, channel 16 of ", fixed(wavelength(8), 1), ", channel 32 of ",
          fixed(wavelength(16), 1), ", channel 64 of ", fixed(wavelength(32), 1),
          ". Attention uses the points only; the encoding is defined between them too."));
}

void show_on_grid(Tour& tour) {
  constexpr Index side = 16, channels = 32;
  // excerpt: sinusoidal_2d
  const posenc::Sinusoidal2d encoding({.model_dim = channels,
                                       .axis_order = posenc::GridAxisOrder::ColumnFirst,
                                       .layout = posenc::SinusoidalLayout::Concatenated});
  Matrix codes = Matrix::Zero(side * side, channels);
  encoding.add_to(posenc::sd(codes), posenc::Positions::grid(side, side));
  // end of excerpt

  Eigen::MatrixXd panels(8 * side, side);
  const std::array<Index, 8> shown{0, 1, 2, 8, 16, 17, 18, 24};
  for (Index i = 0; i < 8; ++i) {
    for (Index cell = 0; cell < side * side; ++cell) {
      const Index channel = shown[static_cast<std::size_t>(i)];
      panels(side * i + cell / side, cell % side) = static_cast<double>(codes(cell, channel));
    }
  }
  // Changes of the first half from one row to the next, and from one column to the next.
  float by_row = 0, by_col = 0;
  const auto change = [&](Index cell, Index other) {
    return (codes.row(cell) - codes.row(other)).head(channels / 2).norm();
  };
  for (Index cell = side; cell < side * side; ++cell) {
    by_row = std::max(by_row, change(cell, cell - side));
    if (cell % side != 0) by_col = std::max(by_col, change(cell, cell - 1));
  }
  tour.report.paragraph(
      "An image is cut into patches on a grid. Half of the channels encode the column, half the "
      "row, "
      "each as above. Projects differ in the order of the halves, so posenc requires it: "
      "`GridAxisOrder::ColumnFirst` is that of MAE.");
  tour.report.picture(
      grid_channels(panels),
      cat("Upper row: the first half of the channels gives vertical stripes, which change with "
          "the column and not with the row: one column further, the vector of these ",
          channels / 2, " channels moves by at most ", fixed(static_cast<double>(by_col), 2),
          " (length of the difference), one row further by ", by_row,
          ". Lower row: the second half changes with the row instead. Channels 8 and 24 are "
          "cosines, the "
          "others shown are sines."));
}

void show_path_of_positions(Tour& tour) {
  const Eigen::MatrixXd codes =
      increments(paper_encoding(), posenc::Positions::range(0, sample_length), model_dim)
          .cast<double>();
  const Eigen::MatrixXd centred = codes.rowwise() - codes.colwise().mean();
  // excerpt: path_of_positions
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> components(centred.transpose() * centred);
  const Eigen::MatrixXd directions = components.eigenvectors().rightCols(3).rowwise().reverse();
  const Eigen::MatrixXd fine =
      increments(paper_encoding(), fine_positions(), model_dim).cast<double>();
  const Eigen::MatrixXd path_points = (fine.rowwise() - codes.colwise().mean()) * directions;
  // end of excerpt
  Eigen::MatrixXd points(fine_count, 4);
  points << path_points, Eigen::VectorXd::LinSpaced(fine_count, 0, sample_length - 1);
  const Eigen::VectorXd variance = components.eigenvalues();  // ascending
  const double share = variance.tail(3).sum() / variance.sum();

  double closest = variance.sum();
  for (Index p = 1; p < sample_length; ++p) {
    const Eigen::MatrixXd apart = codes.topRows(p).rowwise() - codes.row(p);
    closest = std::min(closest, apart.rowwise().norm().minCoeff());
  }
  const Eigen::VectorXd steps =
      (codes.bottomRows(sample_length - 1) - codes.topRows(sample_length - 1)).rowwise().norm();
  tour.report.paragraph(
      "A code is a point in 128 dimensions. A principal component analysis (PCA, by Eigen's "
      "eigenvectors) "
      "finds the three directions in which the points spread most.");
  tour.report.picture(
      path(points),
      cat("The path runs from position 0 to 127, with a large point and its number at every "
          "sixteenth position; the colour is the position. The three directions hold ",
          percent(share),
          " of the variance. The rest, mainly in fast channels, is not visible. In all 128 "
          "dimensions every step from one position to the next has the same length, ",
          fixed(steps.minCoeff(), 4), " to ", fixed(steps.maxCoeff(), 4),
          ", and the path never returns to itself: no two positions are closer than ",
          fixed(closest, 4), "."));
}

}  // namespace tour::sinusoidal
