// SPDX-License-Identifier: MIT
// Learned biases T5, KERPLE and FIRE, against ALiBi's fixed one.
#include "chapters.hpp"
#include "encode.hpp"
#include "numbers.hpp"
#include "random.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace tour::learned_biases {

namespace {

constexpr Index bias_heads = 8, hidden = 32, reach = 4096;
constexpr Index queries[] = {512, 1024, reach};

/// Returns every integer distance up to 128, as T5's steps need them, then 64 per octave up to
/// `reach`.
std::vector<double> distances() {
  std::vector<double> list;
  for (int d = 1; d <= 128; ++d) list.push_back(d);
  for (int n = 0; n <= 12 * 64; ++n) list.push_back(std::exp2(n / 64.0));
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  return list;
}

/// Returns the bias of a head on the score of the key `distance` before the query; NaN if there is
/// none.
template <class Bias>
double bias_at(const Bias& bias, Index head, Index query, double distance) {
  if (distance > static_cast<double>(query)) return std::numeric_limits<double>::quiet_NaN();
  // excerpt: learned_biases
  const double from[] = {static_cast<double>(query)}, to[] = {from[0] - distance};
  Eigen::Matrix<double, 1, 1, Eigen::RowMajor> score(0.0);
  bias.add(head, from, to, posenc::table_view(score));
  // end of excerpt
  return score(0);
}

/// Rounds the distance down, because distances between tokens are integers and a bucket extends to
/// the next one.
double bias_at(const posenc::T5Bias<float>& bias, Index head, Index query, double distance) {
  return bias_at<posenc::T5Bias<float>>(bias, head, query, std::floor(distance));
}

template <class Bias>
Eigen::VectorXd curve(const Bias& bias, Index head, Index query = reach) {
  const std::vector<double> at = distances();
  Eigen::VectorXd values(static_cast<Index>(at.size()));
  for (Index n = 0; n < values.size(); ++n) {
    values(n) = bias_at(bias, head, query, at[static_cast<std::size_t>(n)]);
  }
  return values;
}

/// Returns three curves with their distances, [distances, 4].
Eigen::MatrixXd panel(const Eigen::VectorXd& a, const Eigen::VectorXd& b,
                      const Eigen::VectorXd& c) {
  Eigen::MatrixXd columns(a.size(), 4);
  const std::vector<double> at = distances();
  columns.col(0) = Eigen::Map<const Eigen::VectorXd>(at.data(), a.size());
  columns.rightCols(3) << a, b, c;
  return columns;
}

/// Returns a table that T5 could have learned: ALiBi's bias at the start of each bucket.
Matrix t5_table(const posenc::Alibi& alibi, const posenc::T5Buckets& buckets) {
  Matrix table = Matrix::Zero(buckets.config().buckets, bias_heads);
  for (Index b = 1; b < table.rows(); ++b) {
    const double distance = buckets.thresholds()[static_cast<std::size_t>(b - 1)];
    for (Index h = 0; h < bias_heads; ++h) {
      const double slope = alibi.slopes()[static_cast<std::size_t>(h)];
      table(b, h) = static_cast<float>(-slope * distance);
    }
  }
  return table;
}

/// Returns KERPLE with two heads: the middle and the upper end of the ranges that the authors' code
/// draws from.
posenc::Kerple kerple_logarithmic() {
  return posenc::Kerple({.form = posenc::KerpleForm::Logarithmic, .r1 = {1, 2}, .r2 = {0.5, 1}});
}

posenc::Kerple kerple_power() {
  return posenc::Kerple({.form = posenc::KerpleForm::Power, .r1 = {0.1}, .r2 = {0.5}});
}

/// Returns FIRE before training: uniform weights within 1 / sqrt(inputs), as in PyTorch.
posenc::Fire fire() {
  Random random(3);
  const auto uniform = [&random](Index count, double bound) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = bound * (2 * random.uniform() - 1);
    return values;
  };
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  posenc::FireParameters start{.c = 0.1, .threshold = 512};
  start.hidden_weight = uniform(hidden, 1);
  start.hidden_bias = uniform(hidden, 1);
  start.output_weight = uniform(bias_heads * hidden, bound);
  start.output_bias = uniform(bias_heads, bound);
  return posenc::Fire(start);
}

const char* const commands = R"(set multiplot layout 2,2 \
  margins 0.075,0.965,0.105,0.88 spacing 0.075,0.13 \
  title 'Bias by distance (curves leave at -10); T5, KERPLE and FIRE learn theirs, untrained here'
set logscale x 2
set xrange [1:4200]
set xtics (1, 4, 16, 64, 256, '1,024' 1024, '4,096' 4096)
set grid lc '#dddddd'
set key bottom left Left reverse samplen 1.5 font 'sans-serif,12'
set yrange [-10:0.5]
set ylabel 'added to the score' offset 0.8,0
set title 'ALiBi' offset 0,-0.6
plot data index 'alibi' using 1:2 with lines title 'slope 1/2', \
  '' index 'alibi' using 1:3 with lines title 'slope 1/16', \
  '' index 'alibi' using 1:4 with lines title 'slope 1/256'
unset ylabel
set title 'T5, 32 buckets filled from ALiBi' offset 0,-0.6
plot data index 't5' using 1:2 with steps title 'slope 1/2', \
  '' index 't5' using 1:3 with steps title 'slope 1/16', \
  '' index 't5' using 1:4 with steps title 'slope 1/256'
set xlabel 'distance d, tokens before the query' offset 0,0.4
set ylabel 'added to the score' offset 0.8,0
set title 'KERPLE' offset 0,-0.6
plot data index 'kerple' using 1:2 with lines title '-ln(1 + d/2)', \
  '' index 'kerple' using 1:3 with lines title '-2 ln(1 + d)', \
  '' index 'kerple' using 1:4 with lines title '-0.1 d^{1/2}' enhanced
unset ylabel
set yrange [-0.52:-0.28]
set ytics 0.05
set title 'FIRE, random network, one head (another scale)' offset 0,-0.6
plot data index 'fire' using 1:2 with lines title 'query at 512', \
  '' index 'fire' using 1:3 with lines title 'query at 1,024', \
  '' index 'fire' using 1:4 with lines title 'query at 4,096'
unset multiplot
)";

}  // namespace

void show(Tour& tour) {
  const posenc::Alibi alibi({.heads = bias_heads, .form = posenc::AlibiForm::Causal});
  const posenc::T5BiasConfig config{.direction = posenc::T5Direction::Causal};
  const Matrix table = t5_table(alibi, posenc::T5Buckets(config));
  const posenc::T5Bias t5(posenc::table_view(table), config);
  const posenc::Kerple logarithmic = kerple_logarithmic(), power = kerple_power();
  const posenc::Fire network = fire();

  Figure figure{.name = "learned_biases",
                .title = "Bias by distance: ALiBi, T5, KERPLE and FIRE",
                .width = 960,
                .height = 640,
                .commands = commands};
  figure.blocks = {{"alibi", panel(curve(alibi, 0), curve(alibi, 3), curve(alibi, 7))},
                   {"kerple", panel(curve(logarithmic, 0), curve(logarithmic, 1), curve(power, 0))},
                   {"t5", panel(curve(t5, 0), curve(t5, 3), curve(t5, 7))},
                   {"fire", panel(curve(network, 0, queries[0]), curve(network, 0, queries[1]),
                                  curve(network, 0, queries[2]))}};

  Report& report = tour.report;
  report.paragraph(
      "Like ALiBi, these three only add a number to each score. ALiBi's slopes are fixed; the "
      "others learn the shape: T5 a table with a value for each bucket of distances, KERPLE two "
      "numbers of a formula, FIRE a small network. Nothing here is trained. T5's table holds "
      "ALiBi's bias at the start of each bucket, to show what buckets can express. KERPLE's "
      "logarithms use the middle and the upper end of the ranges from which its authors draw r1 "
      "and "
      "r2; r1 = 0.1 and r2 = 0.5 of its power are chosen for the picture. FIRE's network is "
      "random, "
      "as in PyTorch, with its authors' initial values c = 0.1 and threshold 512.");

  const auto last_step = static_cast<Index>(t5.buckets().thresholds().back());
  Table rows{cat("Bias of one head by the distance of the key, query at ", grouped(reach)),
             {"encoding", "learned, 8 heads", "16", "128", "1,024", "4,096", "far tokens"},
             {}};
  const auto add = [&](const std::string& name, Index learned, const auto& bias, Index head,
                       const std::string& far) {
    std::vector<std::string> row{name, grouped(learned)};
    for (const Index d : {Index{16}, Index{128}, Index{1024}, reach}) {
      row.push_back(fixed(bias_at(bias, head, reach, static_cast<double>(d)), 2));
    }
    row.push_back(far);
    rows.rows.push_back(row);
  };
  add("ALiBi, slope 1/16", 0, alibi, 3, "fade as e^(-slope d)");
  add("T5, filled from ALiBi", table.size(), t5, 3, cat("all equal from ", last_step, " on"));
  add("KERPLE, logarithm", 2 * bias_heads, logarithmic, 0, "fade as (1 + r2 d)^-r1");
  add("KERPLE, power", 2 * bias_heads, power, 0, "fade as e^(-r1 d^r2)");
  add("FIRE, random", 2 + 2 * hidden + bias_heads * (hidden + 1), network, 0,
      "the first token's bias does not depend on the length");
  report.table(rows);

  double apart = 0;
  for (const Index query : queries) {
    apart = std::max(apart, std::abs(bias_at(network, 0, query, static_cast<double>(query)) -
                                     bias_at(network, 0, reach, reach)));
  }
  report.picture(
      figure,
      cat("A bias multiplies a weight by e^bias. At distance ", grouped(reach), " that is ",
          compact(std::exp(bias_at(alibi, 3, reach, reach))), " with ALiBi's slope 1/16, and ",
          compact(std::exp(bias_at(logarithmic, 0, reach, reach))),
          " with KERPLE's first logarithm: nearly a straight line over this logarithmic axis, "
          "which "
          "distinguishes near keys and does not cut off far ones. T5's steps widen, and the last "
          "begins at distance ",
          last_step,
          ": all farther keys get the same bias. FIRE divides by the query's own "
          "position, which stretches its curve with the text. From the threshold on the first "
          "token gets the same bias from all three queries, to within ",
          compact(apart), "."));
}

}  // namespace tour::learned_biases
