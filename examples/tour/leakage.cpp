// SPDX-License-Identifier: MIT
// Attention without an encoding does not depend on the order of its input, unless a causal mask
// reveals it.
#include "chapters.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>

namespace tour::leakage {

namespace {

using Rows = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Layer = posenc::MultiHeadAttention<double>;  // no rotation, no bias

/// Applies x + attention(x) `layers` times, with different weights.
Rows run(Rows x, int layers, posenc::Causal causal) {
  for (int n = 0; n < layers; ++n) {
    Layer layer({.model_dim = model_dim, .heads = heads});
    layer.randomize(static_cast<std::uint64_t>(100 + n));
    Rows y(x.rows(), x.cols());
    layer.forward(posenc::sd(x), posenc::Positions::range(0, x.rows()), posenc::sd(y),
                  {.causal = causal});
    x += y;
  }
  return x;
}

/// Changes of outputs when all tokens but the last are exchanged.
struct Change {
  double last = 0, others = 0;
};

Change change_under_reversal(const Rows& x, int layers, posenc::Causal causal) {
  const Index before_last = x.rows() - 1;
  Rows reversed = x;
  reversed.topRows(before_last) = x.topRows(before_last).colwise().reverse();
  const Rows one = run(x, layers, causal);
  Rows other = run(reversed, layers, causal);
  other.topRows(before_last) = other.topRows(before_last).colwise().reverse().eval();
  const Rows difference = (one - other).cwiseAbs();
  return {difference.bottomRows(1).maxCoeff(), difference.topRows(before_last).maxCoeff()};
}

/// Returns the distance of the output at each position from that at position 1, in a text of a
/// first word and then repetitions of another word.
Eigen::VectorXd drift(posenc::Causal causal) {
  const Rows words = embed({"first", "word"}, model_dim).cast<double>();
  constexpr Index length = 48;
  Rows x = words.row(1).replicate(length, 1);
  x.row(0) = words.row(0);
  // excerpt: causal_leakage
  const Rows y = run(x, 1, causal);  // x + attention(x), without any encoding
  return (y.rowwise() - y.row(1)).rowwise().norm().tail(length - 1);
  // end of excerpt
}

Figure picture(const Eigen::MatrixXd& columns) {
  Figure figure{.name = "causal_leakage",
                .title = "Distance of each output from that at position 1, with and without mask",
                .blocks = {{"drift", columns}}};
  figure.commands = R"(set title 'No encoding, one layer: a first word, then one word 47 times'
set xlabel 'position'
set ylabel 'distance from the output at position 1'
set xrange [0:48]
set yrange [-0.1:*]
set grid lc '#dddddd'
set key bottom right
plot data index 'drift' using ($0 + 1):1 with linespoints ps 0.6 title 'causal mask', \
  '' index 'drift' using ($0 + 1):2 with linespoints ps 0.6 title 'no mask'
)";
  return figure;
}

}  // namespace

void show(Tour& tour) {
  const Rows x = tour.sample.embeddings.topRows(32).cast<double>();
  Table table{
      "32 tokens of the text; all but the last in reverse order. Largest change of an output",
      {"mask", "layers", "last token", "other tokens, at their new positions"},
      {}};
  for (const posenc::Causal causal : {posenc::Causal::No, posenc::Causal::BottomRight}) {
    for (const int layers : {1, 2}) {
      const Change change = change_under_reversal(x, layers, causal);
      table.rows.push_back({causal == posenc::Causal::No ? "none" : "causal", cat(layers),
                            compact(change.last), compact(change.others)});
    }
  }
  Report& report = tour.report;
  report.paragraph(
      "Attention without an encoding is called NoPE. Without a mask such a model does not depend "
      "on the "
      "order of its input, with any number of layers. A causal mask hides the keys after a query, "
      "so the n-th "
      "token sees n keys, which is a trace of its position. In one layer the last token still sees "
      "the same set of keys in any order, but the others do not, and a second layer passes that "
      "information on to the last token. The arithmetic is in double, so that a change by rounding "
      "alone "
      "is of the order of 1e-15.");
  report.table(table);

  Eigen::MatrixXd columns(47, 2);
  columns << drift(posenc::Causal::BottomRight), drift(posenc::Causal::No);
  double smallest_step = columns(1, 0);
  for (Index p = 1; p < columns.rows(); ++p) {
    smallest_step = std::min(smallest_step, columns(p, 0) - columns(p - 1, 0));
  }
  report.picture(picture(columns),
                 cat("With the mask, equal words get a different output at every position: the "
                     "first word's share of the attention shrinks as more words are seen. The "
                     "distance grows with every step, by ",
                     compact(smallest_step),
                     " or more. Without the mask all outputs are equal: they differ by ",
                     compact(columns.col(1).maxCoeff()), "."));
}

}  // namespace tour::leakage
