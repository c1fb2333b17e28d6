// SPDX-License-Identifier: MIT
// Parts of RoPE: cos and sin, frequencies, and their effect on a vector.
#include "chapters.hpp"
#include "encode.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>
#include <cmath>

namespace tour::rope {

namespace {

const double turn = 2 * std::acos(-1.0);

posenc::Rope<posenc::Interleaved> rope_of(Index rotary_dim, double base = 10000) {
  return posenc::Rope<posenc::Interleaved>(
      posenc::Unscaled{.rotary_dim = rotary_dim, .base = base});
}

Eigen::VectorXd wavelengths(Index rotary_dim, double base) {
  // excerpt: rope_spectrum
  const std::vector<double> w =
      frequencies(posenc::Unscaled{.rotary_dim = rotary_dim, .base = base}).inv_freq();
  return turn / Eigen::Map<const Eigen::ArrayXd>(w.data(), static_cast<Index>(w.size()));
  // end of excerpt
}

}  // namespace

void show_tables(Tour& tour) {
  constexpr Index rotary_dim = 64;
  // excerpt: rope_cos_sin
  const posenc::Rope<posenc::Interleaved> rope(
      posenc::Unscaled{.rotary_dim = rotary_dim, .base = 10000});
  const auto table = rope.table<float>(posenc::Positions::range(0, sample_length));
  const Eigen::MatrixXd cos = rows_of(table.cos()), sin = rows_of(table.sin());
  // end of excerpt

  Figure figure{.name = "rope_cos_sin",
                .title = "Heatmaps of the cosines and sines of RoPE",
                .width = 920,
                .height = 460,
                .blocks = {{"cos", cos}, {"sin", sin}}};
  figure.commands =
      signed_palette() + R"(set multiplot layout 1,2 margins 0.08,0.875,0.15,0.85 spacing 0.05,0 \
  title 'RoPE, 64 rotary channels = 32 pairs, base 10000'
unset key
set cbrange [-1:1]
set xrange [-0.5:31.5]
set yrange [127.5:-0.5]
set xtics 4
set ytics 16
set xlabel 'pair i'
set ylabel 'position p'
set title 'cos(p w_i)' offset 0,-0.5
unset colorbox
plot data index 'cos' matrix with image
unset ylabel
set format y ''
set title 'sin(p w_i)' offset 0,-0.5
set cblabel 'cos or sin'
set colorbox user origin 0.89,0.15 size 0.018,0.7
plot data index 'sin' matrix with image
unset multiplot
)";
  const double worst = (cos.array().square() + sin.array().square() - 1).abs().maxCoeff();
  tour.report.paragraph(
      "RoPE takes the channels of a query or key two by two. Pair i is a point in a plane, and at "
      "position p it is rotated by the angle p w_i, w_i = base^(-2i / rotary_dim). These are the "
      "cosines and sines, which `rope.table(positions)` computes once for all layers.");
  tour.report.picture(
      figure,
      cat("Fast pairs on the left flicker; the last pair rotates by only ",
          fixed(std::asin(sin(127, 31)) * 360 / turn, 1),
          " degrees in 127 positions. Each entry is a pure rotation: cos^2 + sin^2 differs from 1 "
          "by at most ",
          scientific(worst), "."));
}

void show_spectrum(Tour& tour) {
  constexpr Index rotary_dim = 128;
  constexpr double context = 4096;
  Eigen::MatrixXd columns(rotary_dim / 2, 3);
  columns << wavelengths(rotary_dim, 1e4), wavelengths(rotary_dim, 5e5),
      wavelengths(rotary_dim, 1e6);

  Figure figure{.name = "rope_spectrum",
                .title = "Wavelength of each pair, on a logarithmic axis",
                .blocks = {{"wavelengths", columns}}};
  figure.commands = R"(set title 'Wavelengths of RoPE, 128 rotary channels'
set xlabel 'pair i'
set ylabel 'wavelength, positions per rotation'
set logscale y
set format y '10^{%T}'
set xrange [-1:64]
set yrange [1:1e8]
set grid lc '#dddddd'
set key top left reverse Left title 'base'
set arrow from -1,4096 to 64,4096 nohead lc '#000000' dt 2
set label 'a context of 4096 tokens' at 1,8000 front
plot data index 'wavelengths' using 0:1 with points ps 0.6 title '10,000', \
  '' index 'wavelengths' using 0:2 with points ps 0.6 title '500,000', \
  '' index 'wavelengths' using 0:3 with points ps 0.6 title '1,000,000'
)";
  const auto longer = [&](Index c) { return (columns.col(c).array() > context).count(); };
  tour.report.paragraph(
      "The wavelength is the number of positions in which a pair makes one rotation, 2 pi / w_i. "
      "The "
      "base determines the wavelengths of the slow pairs.");
  tour.report.picture(
      figure,
      cat("Straight lines on a logarithmic axis: each pair is slower than the one before by the "
          "same factor. All begin at ",
          fixed(columns(0, 0), 2), " positions; the last pair needs ",
          grouped(static_cast<Index>(columns(63, 0))), " with base 10,000 and ",
          grouped(static_cast<Index>(columns(63, 1))),
          " with 500,000. Pairs above the dashed line do "
          "not complete a rotation within 4,096 tokens: ",
          longer(0), ", ", longer(1), " and ", longer(2), " of 64 with the three bases."));
}

void show_curves(Tour& tour) {
  constexpr Index rotary_dim = 64;
  // excerpt: rope_curves
  std::vector<double> at;  // 0, 1/8, 2/8, ... 127
  for (Index n = 0; n <= 8 * (sample_length - 1); ++n) at.push_back(static_cast<double>(n) / 8);
  const auto table = rope_of(rotary_dim).table<float>(posenc::Positions::real(at));
  const Eigen::MatrixXd cos = rows_of(table.cos());
  // end of excerpt

  Figure figure{.name = "rope_curves",
                .title = "Cosines of five pairs against the position",
                .width = 760,
                .height = 620,
                .blocks = {{"cos", cos}}};
  figure.commands = R"(set multiplot layout 5,1 margins 0.08,0.88,0.12,0.92 spacing 0,0.02 \
  title 'RoPE: cos(p w_i), 64 rotary channels, base 10000'
unset key
set xrange [0:127]
set yrange [-1.25:1.25]
set ytics (-1, 0, 1)
set xtics 16
set grid lc '#dddddd'
set format x ''
pairs = '0 4 8 16 24'
do for [n = 1:5] {
  i = int(word(pairs, n))
  set label 1 'pair '.word(pairs, n) at graph 1.02,0.5 left
  if (n == 5) { set format x '%g'; set xlabel 'position p' }
  plot data index 'cos' using ($0 / 8):(column(i + 1)) with lines lt n
}
unset multiplot
)";
  const auto turns = [&](Index pair) {
    const Eigen::VectorXd c = cos.col(pair);
    Index crossings = 0;
    for (Index p = 1; p < c.size(); ++p) crossings += (c(p - 1) < 0) != (c(p) < 0) ? 1 : 0;
    return crossings;
  };
  tour.report.picture(
      figure,
      cat("The index of a pair determines its speed: the curves of pairs 0, 4, 8, 16 and 24 change "
          "sign ",
          turns(0), ", ", turns(4), ", ", turns(8), ", ", turns(16), " and ", turns(24),
          " times from position 0 to 127. Fast pairs distinguish adjacent positions, slow ones "
          "near "
          "from far."));
}

void show_rotated_vector(Tour& tour) {
  constexpr Index rotary_dim = head_dim;
  const std::vector<Index> positions{0, 1, 2, 4, 8, 16, 32, 64, 128, 256};
  const auto rows = static_cast<Index>(positions.size());
  const Matrix vector = tour.sample.embeddings.row(0).head(rotary_dim);
  // excerpt: rope_vector
  Matrix x = vector.replicate(rows, 1);
  // end of excerpt
  // excerpt: rope_vector
  const posenc::Rope<posenc::Interleaved> rope = rope_of(rotary_dim);  // base 10000
  rope.rotate(posenc::split_heads(posenc::sd(x), 1), posenc::Positions::ids(positions));
  // end of excerpt

  Figure figure{.name = "rope_vector",
                .title = "One vector rotated to several positions",
                .blocks = {{"vector", x.cast<double>()}}};
  figure.commands =
      signed_palette() +
      R"(set title 'One query of 32 channels, rotated to ten positions; base 10000, interleaved'
unset key
set xlabel 'channel (pair i is channels 2i and 2i + 1)'
set ylabel 'position'
set cblabel 'value'
set xrange [-0.5:31.5]
set yrange [9.5:-0.5]
set xtics 2
set ytics ('0' 0, '1' 1, '2' 2, '4' 3, '8' 4, '16' 5, '32' 6, '64' 7, '128' 8, '256' 9) scale 0
)" + symmetric_colours(x.cast<double>()) +
      "plot data index 'vector' matrix with image\n";
  const Eigen::VectorXf norms = x.rowwise().norm();
  const double drift = static_cast<double>((norms.array() / norms(0) - 1).abs().maxCoeff());
  const auto change = [&](Index first) {
    const auto part = [&](Index row) { return x.row(row).segment(first, 8); };
    return percent(static_cast<double>((part(1) - part(0)).norm() / part(0).norm()), 1);
  };
  tour.report.picture(
      figure,
      cat("From position 0 to 1 the first 8 channels change by ", change(0),
          " of their length, the last 8 by ", change(24),
          ". The vector rotates but does not grow: over all rows its length differs by at most ",
          scientific(drift), " of itself."));
}

void show_rotation_arrows(Tour& tour) {
  constexpr Index rotary_dim = 32, steps = 8;
  const std::array<Index, 3> pairs{0, 2, 4};
  Matrix x = Matrix::Zero(steps, rotary_dim);
  // excerpt: rope_arrows
  for (const Index pair : pairs) x.col(2 * pair).setOnes();  // the arrow (1, 0) in each plane
  const posenc::Rope<posenc::Interleaved> rope = rope_of(rotary_dim);  // base 10000
  rope.rotate(posenc::split_heads(posenc::sd(x), 1), posenc::Positions::range(0, steps));
  // end of excerpt

  Eigen::MatrixXd arrows(steps, 6);
  for (Index n = 0; n < 3; ++n) {
    arrows.middleCols(2 * n, 2) =
        x.middleCols(2 * pairs[static_cast<std::size_t>(n)], 2).cast<double>();
  }
  const std::vector<double> w = rope.frequencies().inv_freq();
  double worst = 0;
  for (Index p = 1; p < steps; ++p) {
    for (std::size_t n = 0; n < 3; ++n) {
      const auto c = static_cast<Index>(2 * n);
      const double angle =
          std::atan2(arrows(p - 1, c) * arrows(p, c + 1) - arrows(p - 1, c + 1) * arrows(p, c),
                     arrows(p - 1, c) * arrows(p, c) + arrows(p - 1, c + 1) * arrows(p, c + 1));
      worst = std::max(worst, std::abs(angle - w[static_cast<std::size_t>(pairs[n])]));
    }
  }

  Figure figure{.name = "rope_arrows",
                .title = "The arrow (1, 0) rotated to positions 0 to 7, in three planes",
                .width = 960,
                .height = 400,
                .blocks = {{"arrows", arrows}}};
  figure.commands =
      magnitude_palette() + R"(set multiplot layout 1,3 margins 0.065,0.9,0.16,0.86 spacing 0.07,0 \
  title 'The arrow (1, 0) at positions 0 .. 7; 32 rotary channels, base 10000'
unset key
set size ratio -1
set xrange [-1.25:1.25]
set yrange [-1.25:1.25]
set xtics 1
set ytics 1
set grid lc '#e5e5e5'
set cbrange [0:7]
set cbtics 1
set object 1 circle at 0,0 size 1 fs empty border lc '#bbbbbb'
unset colorbox
set style arrow 1 head filled size 0.1,18 lw 1.6 lc palette
do for [n = 0:2] {
  pair = int(word('0 2 4', n + 1))
  set title sprintf('pair %d', pair)
  set xlabel sprintf('channel %d', 2 * pair)
  set ylabel sprintf('channel %d', 2 * pair + 1)
  if (n == 2) { set colorbox user origin 0.92,0.2 size 0.015,0.55; set cblabel 'position' }
  plot data index 'arrows' using (0):(0):(column(2 * n + 1)):(column(2 * n + 2)):0 with vectors as 1
}
unset multiplot
)";
  tour.report.picture(
      figure, cat("The colour is the position. One step rotates pair 0 by ",
                  fixed(w[0] * 360 / turn, 1), " degrees, pair 2 by ", fixed(w[2] * 360 / turn, 1),
                  " and pair 4 by ", fixed(w[4] * 360 / turn, 1),
                  ", always in the same direction. The angle between two adjacent "
                  "arrows differs from w_i by at most ",
                  scientific(worst), " radians."));
}

}  // namespace tour::rope
