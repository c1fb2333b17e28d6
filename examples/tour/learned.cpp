// SPDX-License-Identifier: MIT
// Learned table over a grid of patches, and its resize to a finer grid.
#include "chapters.hpp"
#include "numbers.hpp"
#include "random.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace tour::learned {

namespace {

constexpr Index small_side = 14, large_side = 24, channels = 64, shown_channel = 5;

/// Stand-in for a trained table, whose rows change smoothly over the grid. Every channel is a sum
/// of slow waves, which is defined between the cells as well.
class SmoothGrid {
 public:
  SmoothGrid() {
    Random random(7);
    for (auto& channel : waves_) {
      for (Wave& wave : channel) {
        wave = {0.5 * random.normal(), 0.5 * random.normal(), 6.28 * random.uniform(),
                random.normal()};
      }
    }
  }

  double at(double row, double col, Index channel) const {
    double sum = 0;
    for (const Wave& wave : waves_[static_cast<std::size_t>(channel)]) {
      sum += wave.height * std::cos(wave.by_row * row + wave.by_col * col + wave.phase);
    }
    return sum;
  }

  /// Returns samples at the cells of a grid of side x side over the same area, [side * side,
  /// channels].
  Matrix table(Index side) const {
    Matrix rows(side * side, channels);
    const double step = static_cast<double>(small_side) / static_cast<double>(side);
    const auto coordinate = [step](Index cell) {
      return (static_cast<double>(cell) + 0.5) * step - 0.5;
    };
    for (Index cell = 0; cell < side * side; ++cell) {
      for (Index c = 0; c < channels; ++c) {
        rows(cell, c) = static_cast<float>(at(coordinate(cell / side), coordinate(cell % side), c));
      }
    }
    return rows;
  }

 private:
  struct Wave {
    double by_row, by_col, phase, height;
  };
  std::array<std::array<Wave, 3>, channels> waves_;
};

/// Returns one channel as an image of the grid.
Eigen::MatrixXd grid(const Matrix& table, Index side) {
  Eigen::MatrixXd cells(side, side);
  for (Index cell = 0; cell < side * side; ++cell) {
    cells(cell / side, cell % side) = static_cast<double>(table(cell, shown_channel));
  }
  return cells;
}

Matrix resized(const Matrix& table, posenc::ResizeFilter filter) {
  // excerpt: learned_table
  Matrix out(large_side * large_side, channels);
  posenc::resize_grid(posenc::table_view(table), posenc::table_view(out),
                      {.source = {.rows = small_side, .cols = small_side},
                       .target = {.rows = large_side, .cols = large_side},
                       .filter = filter});
  // end of excerpt
  return out;
}

/// Returns the root mean square difference, as a share of that of the truth.
double relative_error(const Matrix& table, const Matrix& truth) {
  return static_cast<double>((table - truth).norm() / truth.norm());
}

Figure picture(const Matrix& table, const Matrix& large) {
  Figure figure{.name = "learned_table",
                .title = "A learned table, one of its channels, and that channel resized",
                .width = 980,
                .height = 430,
                .blocks = {{"table", table.cast<double>()},
                           {"small", grid(table, small_side)},
                           {"large", grid(large, large_side)}}};
  const double size =
      std::max(largest_size(figure.blocks[0].rows), largest_size(figure.blocks[2].rows));
  figure.commands = signed_palette() + symmetric_colours(size) + R"(set multiplot
set style textbox opaque noborder fc '#ffffff'
unset key
unset colorbox
set bmargin at screen 0.17
set tmargin at screen 0.86
set lmargin at screen 0.075
set rmargin at screen 0.31
set title 'the table: 196 rows x 64 channels'
set xlabel 'channel'
set ylabel 'row of the table (grid cell)'
set xrange [-0.5:63.5]
set yrange [195.5:-0.5]
set object 1 rectangle from 4,-0.5 to 6,195.5 front lw 2 fs empty border lc '#000000'
set label 1 'channel 5' at 8,10 left front boxed tc '#000000'
plot data index 'table' matrix with image
unset object 1
unset label 1
set lmargin at screen 0.385
set rmargin at screen 0.62
set title 'channel 5 on its 14 x 14 grid'
set xlabel 'column'
set ylabel 'row'
set xrange [-0.5:13.5]
set yrange [13.5:-0.5]
plot data index 'small' matrix with image
set lmargin at screen 0.675
set rmargin at screen 0.91
set cblabel 'value of the table'
set colorbox user origin 0.925,0.17 size 0.015,0.69
set title 'resized to 24 x 24, bicubic'
unset ylabel
set xrange [-0.5:23.5]
set yrange [23.5:-0.5]
plot data index 'large' matrix with image
unset multiplot
)";
  return figure;
}

}  // namespace

void show(Tour& tour) {
  const SmoothGrid smooth;
  const Matrix table = smooth.table(small_side), truth = smooth.table(large_side);
  const Matrix bicubic = resized(table, posenc::ResizeFilter::Bicubic);
  const Matrix bilinear = resized(table, posenc::ResizeFilter::Bilinear);

  tour.report.paragraph(
      "A learned table has a trained row for each position. A vision transformer trained on a "
      "grid of 14 x 14 patches has 196 rows; a larger image needs more, and `resize_grid` "
      "interpolates them. This table is not trained. It is a smooth stand-in whose values are "
      "known "
      "between the cells too, so that the resize can be checked.");
  tour.report.picture(
      picture(table, bicubic),
      cat("Left: the table as it is stored; the black frame is around the channel that the "
          "other two pictures show. The middle and the right show the same hills, on ",
          large_side * large_side, " cells interpolated from ", small_side * small_side,
          ". The bicubic resize has an error of ", percent(relative_error(bicubic, truth), 1),
          " of the values' size, the bilinear one by ", percent(relative_error(bilinear, truth), 1),
          " (root mean square)."));
}

}  // namespace tour::learned
