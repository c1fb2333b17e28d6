// SPDX-License-Identifier: MIT
// xPos: RoPE whose fast pairs fade with the distance, by factors on queries and keys.
#include "chapters.hpp"
#include "encode.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <array>
#include <cmath>
#include <vector>

namespace tour::xpos {

namespace {

constexpr Index rotary_dim = 64, furthest = 2048, steps = 2, count = furthest * steps + 1;
constexpr std::array<Index, 4> shown{0, 8, 16, 31};

Eigen::VectorXd scores(const auto& encoding) {
  std::vector<double> at;
  for (Index n = 0; n < count; ++n) at.push_back(static_cast<double>(n) / steps);
  // excerpt: xpos 2
  Matrix q = Matrix::Ones(count, rotary_dim), k = Matrix::Ones(1, rotary_dim);
  encoding.rotate_queries(posenc::split_heads(posenc::sd(q), 1),
                          posenc::Positions::real(at));  // 0, 1/2, ...
  encoding.rotate_keys(posenc::split_heads(posenc::sd(k), 1), posenc::Positions::range(0, 1));
  return (q * k.transpose()).cast<double>() / rotary_dim;
  // end of excerpt
}

Figure picture(const Eigen::MatrixXd& curves, const Eigen::MatrixXd& scales) {
  Figure figure{.name = "xpos",
                .title = "Scores of RoPE and of xPos against the distance, and xPos's factors",
                .width = 960,
                .height = 450,
                .blocks = {{"scores", curves}, {"scales", scales}}};
  figure.commands = R"(set multiplot layout 1,2 margins 0.08,0.975,0.145,0.83 spacing 0.11,0 \
  title 'xPos, 64 rotary channels, base 10,000, scale base 512'
set xlabel 'distance of the key before the query, positions'
set grid lc '#dddddd'
set xrange [0:2048]
set xtics 512
set title 'score of equal vectors (all channels 1)'
set ylabel 'score / score at distance 0'
set yrange [-0.2:1.05]
plot data index 'scores' using ($0 / 2):1 with lines lw 1 title 'RoPE', \
  '' index 'scores' using ($0 / 2):2 with lines lw 1.5 lt 2 title 'xPos'
set title 'factor on a pair''s part of the score'
set ylabel 'factor (logarithmic)'
set yrange [0.004:1.3]
set logscale y
set key bottom left Left reverse title 'pair'
plot for [n = 1:4] data index 'scales' using 0:n with lines lt n title word('0 8 16 31', n)
unset multiplot
)";
  return figure;
}

}  // namespace

void show(Tour& tour) {
  const posenc::Unscaled rule{.rotary_dim = rotary_dim, .base = 10000};
  // excerpt: xpos 1
  const posenc::XPos<posenc::Interleaved> xpos(rule, {.scale_base = 512});
  // end of excerpt
  const posenc::Rope<posenc::Interleaved> rope(rule);
  Eigen::MatrixXd curves(count, 2), scales(furthest + 1, 4);
  curves << scores(rope), scores(xpos);
  for (Index d = 0; d <= furthest; ++d) {
    for (Index n = 0; n < 4; ++n) {
      scales(d, n) = xpos.scale(static_cast<double>(d), shown[static_cast<std::size_t>(n)]);
    }
  }
  // The last quarter of the distances.
  const Eigen::MatrixXd far = curves.bottomRows(furthest / 4 * steps);
  const auto swing = [&](Index column) {
    return far.col(column).maxCoeff() - far.col(column).minCoeff();
  };
  tour.report.paragraph(
      "xPos rotates like RoPE. It also multiplies a query by a factor that falls with its "
      "position and a key by one that grows with it, so that their product depends on the distance "
      "only: pair i's part of the score is multiplied by zeta_i^(distance / 512), with zeta_i = "
      "(2i + 0.4 r) / (1.4 r) and r = 64 channels. The key must precede the query, as under "
      "a causal mask.");
  tour.report.picture(
      picture(curves, scales),
      cat("Left: xPos hardly lowers the score, but reduces its oscillation. At distances from ",
          grouped(furthest - furthest / 4), " to ", grouped(furthest), " the mean score is ",
          fixed(far.col(0).mean(), 3), " with RoPE and ", fixed(far.col(1).mean(), 3),
          " with xPos, as shares of that at distance 0. But RoPE's oscillates by ",
          fixed(swing(0), 3), ", xPos's by ", fixed(swing(1), 3),
          ". Right: the reason. Fast pairs cause the oscillation, and their part fades. Slow pairs "
          "determine the mean, and keep their part. At distance ",
          grouped(furthest), " the part of pair 0 is multiplied by ", fixed(scales(furthest, 0), 4),
          ", that of pair 31 by ", fixed(scales(furthest, 3), 2), "."));
}

}  // namespace tour::xpos
