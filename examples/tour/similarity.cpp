// SPDX-License-Identifier: MIT
// Similarity of positions, as attention computes it.
#include "chapters.hpp"
#include "encode.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace tour::similarity {

namespace {

constexpr Index bits = 8, alibi_heads = 8, alibi_head = 3;

struct Panel {
  std::string name;
  Eigen::MatrixXd similarity;  ///< [sample_length, sample_length], 1 for a position and itself
};

/// Returns the cosine of the angle between each two rows.
Eigen::MatrixXd cosines(const Matrix& codes) {
  // excerpt: position_similarity
  const Eigen::MatrixXd unit = codes.cast<double>().rowwise().normalized();
  return unit * unit.transpose();
  // end of excerpt
}

Eigen::MatrixXd of_rope(const posenc::Positions& positions) {
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Unscaled{.rotary_dim = model_dim, .base = 10000});
  // excerpt: position_similarity
  Matrix turned = Matrix::Ones(sample_length, model_dim);  // equal queries and keys
  rope.rotate(posenc::split_heads(posenc::sd(turned), 1), positions);
  // end of excerpt
  return cosines(turned);
}

/// Returns the factor of the bias on each weight.
Eigen::MatrixXd of_alibi() {
  const posenc::Alibi alibi({.heads = alibi_heads, .form = posenc::AlibiForm::Symmetric});
  std::vector<double> where(static_cast<std::size_t>(sample_length));
  std::iota(where.begin(), where.end(), 0.0);
  Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> tile(sample_length,
                                                                              sample_length);
  tile.setZero();
  alibi.add(alibi_head, where, where, posenc::table_view(tile));
  return tile.array().exp();
}

std::vector<Panel> panels() {
  const auto positions = posenc::Positions::range(1, sample_length);
  const auto binary = increments(posenc::BinaryEncoding({.model_dim = bits}), positions, bits);
  const auto sinusoidal = increments(
      posenc::Sinusoidal({.model_dim = model_dim, .layout = posenc::SinusoidalLayout::Interleaved}),
      positions, model_dim);
  return {{"binary", cosines(binary)},
          {"sinusoidal", cosines(sinusoidal)},
          {"learned, before training", cosines(random_table(sample_length, model_dim, 1))},
          {"RoPE, query = key = ones", of_rope(positions)},
          {"ALiBi, slope 1/16: e^{bias}", of_alibi()}};
}

/// Returns the largest difference between two pairs of positions with equal distances.
double unevenness(const Eigen::MatrixXd& similarity) {
  double worst = 0;
  for (Index d = 0; d < similarity.rows(); ++d) {
    const auto diagonal = similarity.diagonal(d);
    worst = std::max(worst, diagonal.maxCoeff() - diagonal.minCoeff());
  }
  return worst;
}

Figure picture(const std::vector<Panel>& all) {
  Figure figure{.name = "position_similarity",
                .title = "Similarity of each two of 128 positions under five encodings",
                .width = 960,
                .height = 740};
  figure.commands = magnitude_palette() + R"(set multiplot title \
  'How alike two positions of 1 .. 128 look to attention (a position and itself: 1)'
unset key
set cbrange [-0.4:1]
set xrange [0.5:128.5]
set yrange [128.5:0.5]
set xtics 32
set ytics 32
set size ratio -1
unset colorbox
)";
  for (std::size_t n = 0; n < all.size(); ++n) {
    figure.blocks.push_back({cat("panel", n), all[n].similarity});
    const double left = 0.075 + 0.31 * static_cast<double>(n % 3), top = n < 3 ? 0.9 : 0.44;
    figure.commands += cat(
        "set lmargin at screen ", left, "\nset rmargin at screen ", left + 0.26,
        "\nset tmargin at screen ", top, "\nset bmargin at screen ", top - 0.34, "\nset title '",
        all[n].name, "' offset 0,-0.5\n", n % 3 == 0 ? "set ylabel 'position'\n" : "unset ylabel\n",
        n >= 2 ? "set xlabel 'position'\n" : "unset xlabel\n",
        n + 1 == all.size()
            ? "set colorbox user origin 0.74,0.11 size 0.02,0.28\nset cblabel 'similarity'\n"
            : "",
        "plot data index 'panel", n, "' matrix using ($1 + 1):($2 + 1):3 with image\n");
  }
  figure.commands += "unset multiplot\n";
  return figure;
}

}  // namespace

void show(Tour& tour) {
  const std::vector<Panel> all = panels();
  Table table{
      "Mean similarity by distance, and its largest difference between pairs of equal distance",
      {"encoding", "1", "16", "64", "largest difference at one distance"},
      {}};
  for (const Panel& panel : all) {
    std::vector<std::string> row{panel.name == all.back().name ? "ALiBi, slope 1/16" : panel.name};
    for (const Index d : {1, 16, 64}) {
      row.push_back(fixed(panel.similarity.diagonal(d).mean(), 2));
    }
    row.push_back(compact(unevenness(panel.similarity)));
    table.rows.push_back(row);
  }
  Report& report = tour.report;
  report.paragraph(
      "For additive codes: the cosine of the angle between two of them. For RoPE: the cosine "
      "between "
      "equal queries and keys after rotation. For ALiBi: the factor of a weight. Positions begin "
      "at "
      "1, because the binary code of 0 has no direction.");
  report.table(table);
  report.picture(
      picture(all),
      "If every diagonal has one colour, only the distance matters: sinusoidal, RoPE and "
      "ALiBi. The last column of the table shows how exactly. Binary codes make distant "
      "positions similar and adjacent ones different. The rows of an untrained table are "
      "all different, near or far.");
}

}  // namespace tour::similarity
