// SPDX-License-Identifier: MIT
// Simple encodings that come to mind first, and their faults.
#include "chapters.hpp"
#include "encode.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

namespace tour::simple_encodings {

namespace {

constexpr Index channels = 8, positions = 128;

/// Returns the distance of each code from the next one.
Eigen::VectorXd steps(const Matrix& codes) {
  const Index count = codes.rows() - 1;
  return (codes.bottomRows(count) - codes.topRows(count)).rowwise().norm().cast<double>();
}

Eigen::VectorXd norms(const Matrix& codes) { return codes.rowwise().norm().cast<double>(); }

Figure heatmaps(const Matrix& integer, const Matrix& binary) {
  Figure figure{.name = "integer_binary",
                .title = "Heatmaps of integer and binary encodings",
                .width = 860,
                .height = 560,
                .blocks = {{"integer", integer.cast<double>()}, {"binary", binary.cast<double>()}}};
  figure.commands =
      magnitude_palette() + R"(set multiplot layout 1,2 margins 0.09,0.89,0.13,0.9 spacing 0.26,0
unset key
set xlabel 'channel'
set ylabel 'position'
set xrange [-0.5:7.5]
set yrange [127.5:-0.5]
set ytics 16
set cbrange [0:127]
set cbtics 16
set cblabel 'value added'
set title 'integer: the position itself'
plot data index 'integer' matrix with image
set cbrange [0:1]
set cbtics ('0' 0.25, '1' 0.75) scale 0
set palette defined (0 '#440154', 1 '#440154', 1 '#fde725', 2 '#fde725')
set title 'binary: bit k in channel k'
plot data index 'binary' matrix with image
unset multiplot
)";
  return figure;
}

Figure comparison(const Eigen::MatrixXd& norm_columns, const Eigen::MatrixXd& step_columns) {
  Figure figure{.name = "integer_binary_curves",
                .title = "Sizes of the codes, and distances from each code to the next",
                .width = 920,
                .height = 430,
                .blocks = {{"norms", norm_columns}, {"steps", step_columns}}};
  figure.commands = R"(set multiplot layout 1,2 margins 0.1,0.98,0.15,0.9 spacing 0.1,0
set xlabel 'position'
set xrange [0:127]
set xtics 32
set grid lc '#dddddd'
unset key
set title 'Size of the code, 8 channels'
set ylabel 'size / mean size of an embedding'
set logscale y
set key at graph 0.98,0.45
plot data index 'norms' using 0:1 with lines title 'integer', \
  '' index 'norms' using 0:2 with lines title 'binary', \
  '' index 'norms' using 0:3 with lines title 'sinusoidal'
unset logscale
set key at graph 0.98,0.26
set title 'Distance from each code to the next'
set ylabel 'distance'
set yrange [0:3]
plot data index 'steps' using 0:1 with lines title 'integer', \
  '' index 'steps' using 0:2 with lines title 'binary', \
  '' index 'steps' using 0:3 with lines title 'sinusoidal'
unset multiplot
)";
  return figure;
}

}  // namespace

void show(Tour& tour) {
  const auto range = posenc::Positions::range(0, positions);
  // excerpt: integer_binary
  Matrix integer = Matrix::Zero(positions, channels), binary = integer;
  posenc::IntegerEncoding().add_to(posenc::sd(integer), range);
  posenc::BinaryEncoding({.model_dim = channels}).add_to(posenc::sd(binary), range);
  // end of excerpt
  const Matrix sinusoidal = increments(
      posenc::Sinusoidal({.model_dim = channels, .layout = posenc::SinusoidalLayout::Interleaved}),
      range, channels);

  Report& report = tour.report;
  const auto changed_bits = [&](Index p, Index q) {
    return (binary.row(p) - binary.row(q)).cwiseAbs().sum();
  };
  report.paragraph(
      "The position as a number, or as its bits, distinguishes all positions. But the number "
      "becomes "
      "far larger than the embeddings that it is added to. The bits jump: a step of one may change "
      "every channel, and distant positions may have similar codes.");
  report.picture(
      heatmaps(integer, binary),
      cat("Left: one value that grows without bound, ", integer(127, 0),
          " at position 127, where a channel of an embedding is of the size of 1. Right: jumps; "
          "from position 63 to 64, halfway down, ",
          changed_bits(63, 64), " of the 8 bits change, but from 0 to 64, which is far away, only ",
          changed_bits(0, 64), "."));

  const double embedding = norms(embed(tour.sample.tokens, channels)).mean();
  Eigen::MatrixXd sizes(positions, 3), apart(positions - 1, 3);
  // excerpt: integer_binary_curves
  sizes << norms(integer) / embedding, norms(binary) / embedding, norms(sinusoidal) / embedding;
  apart << steps(integer), steps(binary), steps(sinusoidal);  // from each row to the next
  // end of excerpt
  report.picture(
      comparison(sizes, apart),
      cat("Left: at position 127 the integer code is ", fixed(sizes(127, 0), 0),
          " times as large as an average embedding, the sinusoidal one ", fixed(sizes(127, 2), 2),
          " times. (Sizes are lengths of vectors.) Right: a step of one position should "
          "be the same "
          "everywhere. The integer step is always ",
          fixed(apart.col(0).minCoeff(), 2), ", the binary one between ",
          fixed(apart.col(1).minCoeff(), 2), " and ", fixed(apart.col(1).maxCoeff(), 2),
          ", the sinusoidal one always ", fixed(apart.col(2).minCoeff(), 2), "."));
}

}  // namespace tour::simple_encodings
