// SPDX-License-Identifier: MIT
// ALiBi: a penalty on the score that grows with the distance, with a slope for each head.
#include "chapters.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

namespace tour::alibi {

namespace {

constexpr Index seq = 64;

/// Returns e^bias of one head: the factor of its weights, up to their sum.
Eigen::MatrixXd factor_of(const posenc::Alibi& alibi, Index head) {
  std::vector<double> positions(static_cast<std::size_t>(seq));
  std::iota(positions.begin(), positions.end(), 0.0);
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> tile(seq, seq);
  // excerpt: alibi_bias 2
  tile.setZero();
  alibi.add(head, positions, positions, posenc::table_view(tile));
  return tile.array().exp();  // the factor of the weights
  // end of excerpt
}

Eigen::MatrixXd slopes_of(Index count) {
  // excerpt: alibi_slopes
  const std::vector<double> slopes = posenc::alibi_slopes(count);
  return Eigen::Map<const Eigen::VectorXd>(slopes.data(), count);
  // end of excerpt
}

}  // namespace

void show_bias(Tour& tour) {
  constexpr Index count = 8;
  // excerpt: alibi_bias 1
  const posenc::Alibi alibi({.heads = count, .form = posenc::AlibiForm::Causal});
  // end of excerpt
  std::string slope_names;
  for (const double slope : alibi.slopes()) slope_names += cat("1/", fixed(1 / slope, 0), ' ');
  Figure figure{.name = "alibi_bias",
                .title = "e^bias of ALiBi for each of eight heads",
                .width = 960,
                .height = 540};
  for (Index h = 0; h < count; ++h) figure.blocks.push_back({cat("head", h), factor_of(alibi, h)});
  figure.commands = magnitude_palette() + cat("slopes = '", slope_names, "'\n") +
                    R"(set multiplot layout 2,4 margins 0.075,0.89,0.12,0.87 spacing 0.02,0.09 \
  title 'ALiBi: e^{bias} of 8 heads, 64 tokens, causal (white: masked keys)'
unset key
set cbrange [0:1]
set xrange [-0.5:63.5]
set yrange [63.5:-0.5]
set xtics 16
set ytics 16
do for [h = 0:7] {
  if (h < 4) { set xlabel ''; set format x '' } else { set xlabel 'key'; set format x '%g' }
  if (h % 4 == 0) { set ylabel 'query'; set format y '%g' } else { set ylabel ''; set format y '' }
  if (h == 3) { set colorbox user origin 0.905,0.12 size 0.016,0.75; set cblabel 'e^{bias}: a weight is multiplied by this' } else { unset colorbox }
  set title 'head '.h.', slope '.word(slopes, h + 1) offset 0,-0.6
  plot data index 'head'.h matrix using 1:2:($1 > $2 ? NaN : $3) with image
}
unset multiplot
)";
  const auto& slopes = alibi.slopes();
  const auto reach = [&](std::size_t h) { return fixed(1 / slopes[h], 0); };
  tour.report.paragraph(
      "ALiBi changes neither embeddings nor queries and keys. It subtracts slope * distance from "
      "each "
      "score before the softmax, so that a weight is multiplied by e^(-slope * distance). Nothing "
      "of size S x S is stored: `alibi.add` works on one tile of scores at a time.");
  tour.report.picture(
      figure,
      cat("Yellow: the key has its weight without a bias; dark: it has none. Each head has its "
          "own window: a weight falls to 1/e = 0.37 within ",
          reach(0), " positions in head 0, the steepest, and within ", reach(7),
          " in head 7. At distance 63 the bias is ", fixed(-slopes[0] * 63, 1), " in head 0 and ",
          fixed(-slopes[7] * 63, 2), " in head 7, so that a weight is multiplied by ",
          compact(std::exp(-slopes[0] * 63)), " and ", fixed(std::exp(-slopes[7] * 63), 2), "."));
}

void show_slopes(Tour& tour) {
  Figure figure{.name = "alibi_slopes",
                .title = "ALiBi's slopes for 8, 12 and 40 heads",
                .blocks = {{"8", slopes_of(8)}, {"12", slopes_of(12)}, {"40", slopes_of(40)}}};
  figure.commands = R"(set title 'ALiBi slopes for 8, 12 and 40 heads, max bias 8'
set xlabel 'head'
set ylabel 'slope'
set logscale y 2
set format y '2^{%L}'
set xrange [-1:40.5]
set yrange [2**-8.6:1.2]
set grid lc '#dddddd'
set key outside right center title 'heads'
plot data index '40' using 0:1 with points ps 0.7 lt 3 title '40', \
  '' index '12' using 0:1 with points pt 4 ps 1.1 lt 2 title '12', \
  '' index '8' using 0:1 with points ps 0.6 lt 1 title '8'
)";
  const std::vector<double> twelve = posenc::alibi_slopes(12);
  const std::vector<double> forty = posenc::alibi_slopes(40);
  tour.report.picture(
      figure,
      cat("Eight heads halve the slope from head to head. With 12 the first 8 are the same, "
          "and the other 4 fill gaps, starting again at ",
          fixed(twelve[8], 4),
          ": slopes are not sorted when the number of heads is no power "
          "of two. With 40, heads 32 to 39 start again at ",
          fixed(forty[32], 4), "."));
}

}  // namespace tour::alibi
