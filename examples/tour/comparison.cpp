// SPDX-License-Identifier: MIT
// A table of all encodings: what each acts on, its cost and its properties.
#include "chapters.hpp"
#include "encode.hpp"
#include "kernels.hpp"
#include "numbers.hpp"
#include "stopwatch.hpp"
#include <posenc/posenc.hpp>

#include <cmath>

namespace tour::comparison {

namespace {

constexpr Index width = 512, seq = 512, layer_heads = 8, dim = width / layer_heads;

using Heads = Eigen::Tensor<float, 4, Eigen::RowMajor>;  // [batch, seq, heads, head_dim]
using Row = std::vector<std::string>;

posenc::Positions trained() { return posenc::Positions::range(0, seq); }
posenc::Positions untrained() { return posenc::Positions::range(seq, seq); }

/// Returns the result of a call at positions beyond the trained length.
template <class Call>
std::string verdict(const Call& call, const std::string& remark) {
  try {
    call();
    return "runs" + remark;
  } catch (const posenc::PositionError&) {
    return "throws PositionError";
  }
}

/// Returns nanoseconds per token.
template <class Call>
std::string cost(const Call& call) {
  return grouped(std::llround(nanoseconds(call) / static_cast<double>(seq)));
}

/// Returns the mean of p[0] . p[k] over distances k around 64, where p[0] . p[0] is 1.
double similarity_around_64(const Matrix& codes) {
  constexpr Index first = 48, count = 33;
  const auto near = codes.row(0);
  const float sum = (codes.middleRows(first, count) * near.transpose()).sum();
  return static_cast<double>(sum / near.squaredNorm()) / static_cast<double>(count);
}

Row none() { return {"none", "nowhere", "0", "runs, order unknown", "1 at any distance", "0"}; }

Row sinusoidal() {
  const posenc::Sinusoidal encoding(
      {.model_dim = width, .layout = posenc::SinusoidalLayout::Interleaved});
  Matrix x = Matrix::Zero(seq, width);
  const auto run = [&](const posenc::Positions& p) { encoding.add_to(posenc::sd(x), p); };
  return {"sinusoidal",
          "X += P",
          "0",
          verdict([&] { run(untrained()); }, ", slow channels have new values"),
          fixed(similarity_around_64(increments(encoding, trained(), width)), 2),
          cost([&] { run(trained()); })};
}

Row learned() {
  const Matrix table = random_table(seq, width, 1);
  const posenc::Learned<float> encoding(posenc::table_view(table));
  Matrix x = Matrix::Zero(seq, width);
  const auto run = [&](const posenc::Positions& p) { encoding.add_to(posenc::sd(x), p); };
  return {"learned",
          "X += W[position]",
          grouped(table.size()),
          verdict([&] { run(untrained()); }, ""),
          fixed(similarity_around_64(table), 2) + " before training",
          cost([&] { run(trained()); })};
}

Row rope() {
  const posenc::Rope<posenc::HalfRotate> encoding(
      posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  Heads q(1, seq, layer_heads, dim), k(1, seq, layer_heads, dim);
  q.setConstant(0.1F), k.setConstant(0.1F);
  const auto run = [&](const posenc::Positions& p) {
    const auto table = encoding.table<float>(p);  // once, for q, k and all layers
    table.rotate(posenc::bshd(q));
    table.rotate(posenc::bshd(k));
  };
  // The query and key are the same everywhere, so their score at distance k is the sum of cos(k
  // w_i).
  Matrix turned = Matrix::Ones(seq, dim);
  encoding.rotate(posenc::split_heads(posenc::sd(turned), 1), trained());
  return {"RoPE",
          "q, k rotated",
          "0",
          verdict([&] { run(untrained()); }, ", slow pairs reach new angles"),
          fixed(similarity_around_64(turned), 2),
          cost([&] { run(trained()); })};
}

Row alibi() {
  const posenc::Alibi encoding({.heads = layer_heads, .form = posenc::AlibiForm::Causal});
  Matrix scores = Matrix::Zero(seq, seq);
  std::vector<double> queries(static_cast<std::size_t>(seq));
  const auto run = [&](const posenc::Positions& p) {
    for (Index s = 0; s < seq; ++s) queries[static_cast<std::size_t>(s)] = p.at(0, s);
    for (Index h = 0; h < layer_heads; ++h) {
      encoding.add(h, queries, queries, posenc::table_view(scores));
    }
  };
  const auto factor = [&](std::size_t h) { return compact(std::exp(-64 * encoding.slopes()[h])); };
  return {"ALiBi",
          "scores += bias",
          "0",
          verdict([&] { run(untrained()); }, ", far keys fade"),
          cat("weights times ", factor(0), " to ", factor(layer_heads - 1), ", by head"),
          cost([&] { run(trained()); })};
}

}  // namespace

void show(Tour& tour) {
  tour.report.paragraph(cat(
      "Similarity measures how similar two positions at distance 64 are to attention. It is 1 for "
      "equal positions. The number is the mean over distances 48 to 80: for codes of their "
      "product, "
      "for RoPE of the score of a query and a key of ones. For ALiBi it is the factor of a weight "
      "at distance 64. The cost is measured during this run: one thread, float32, ",
      seq, " tokens, model width ", width, ", ", layer_heads, " heads of ", dim,
      ", in nanoseconds a token, the fastest of 15 runs. RoPE's time includes cos and sin, queries "
      "and keys; ALiBi's grows with the number of keys, here ",
      seq, " per head. ", kernels_that_run()));
  tour.report.table({"Cost and similarity",
                     {"encoding", "acts on", "trained parameters", "beyond the trained length",
                      "similarity at distance 64", "ns per token"},
                     {none(), sinusoidal(), learned(), rope(), alibi()}});
}

}  // namespace tour::comparison
