// SPDX-License-Identifier: MIT
// Numbers of trained parameters that an encoding adds.
#include "chapters.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <algorithm>

namespace tour::parameters {

namespace {

// Sizes of GPT-2 small, and of FIRE's network as in its authors' code.
constexpr Index width = 768, rows = 1024, layer_heads = 12, dim = width / layer_heads, hidden = 32;

struct Cost {
  std::string name;
  Index trained;
  std::string kept;  ///< computed once
};

std::vector<Cost> costs() {
  const Matrix table = Matrix::Zero(rows, width);
  const posenc::Learned<float> learned(posenc::table_view(table));
  // excerpt: parameters
  const Index of_learned = learned.table().rows * learned.table().cols;
  const Index of_t5 = posenc::T5BiasConfig{}.buckets * layer_heads;   // a table [buckets, heads]
  const Index of_kerple = 2 * layer_heads;                            // r1 and r2 of each head
  const Index of_fire = 2 + 2 * hidden + layer_heads * (hidden + 1);  // c, L and a network
  // end of excerpt
  const posenc::Sinusoidal sinusoidal(
      {.model_dim = width, .layout = posenc::SinusoidalLayout::Interleaved});
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  const posenc::Alibi alibi({.heads = layer_heads, .form = posenc::AlibiForm::Causal});
  return {{"none", 0, "-"},
          {"sinusoidal", 0, cat(sinusoidal.frequencies().pairs(), " frequencies")},
          {"learned", of_learned, "-"},
          {"RoPE", 0, cat(rope.frequencies().pairs(), " frequencies")},
          {"ALiBi", 0, cat(alibi.heads(), " slopes")},
          {"KERPLE", of_kerple, "-"},
          {"T5", of_t5, "-"},
          {"FIRE", of_fire, "-"}};
}

/// Returns a bar chart from 1 on a logarithmic axis; a zero has a label instead of a bar.
Figure picture(const std::vector<Cost>& all, Index of_layer) {
  const auto count = static_cast<Index>(all.size());
  Eigen::MatrixXd bars = Eigen::MatrixXd::Ones(count + 1, 1);
  std::string tics, labels;
  for (Index n = 0; n <= count; ++n) {
    const bool layer = n == count;
    const Index trained = layer ? of_layer : all[static_cast<std::size_t>(n)].trained;
    bars(n, 0) = static_cast<double>(std::max(trained, Index{1}));
    tics += cat(n == 0 ? "" : ", ", "'",
                layer ? "attention layer" : all[static_cast<std::size_t>(n)].name, "' ", n);
    labels += cat("set label '", grouped(trained), "' at ", bars(n, 0) * 1.3, ",", n, " left\n");
  }
  Figure figure{.name = "parameters",
                .title = "Bars: trained numbers of eight encodings, and of an attention layer",
                .width = 860,
                .height = 430,
                .blocks = {{"bars", bars}}};
  figure.commands = cat(
      R"(set title 'Trained numbers, 768 channels, 12 heads, 1,024 positions'
unset key
set style fill solid 0.9 noborder
set xlabel 'trained numbers (logarithmic)'
set logscale x
set format x '10^{%T}'
set xrange [1:4e7]
set yrange [)",
      count, R"(.6:-0.6]
set grid x lc '#dddddd'
set ytics scale 0 ()",
      tics, ")\n", labels,
      "plot data index 'bars' using (($1 + 1) / 2):0:(1):1:($0 - 0.3):($0 + 0.3):($0 == ", count,
      R"( ? 0x888888 : 0x0072b2) with boxxyerror lc rgb variable
)");
  return figure;
}

}  // namespace

void show(Tour& tour) {
  const posenc::MultiHeadAttention<float> layer({.model_dim = width, .heads = layer_heads});
  const Index of_layer = layer.parameter_count();
  const std::vector<Cost> all = costs();

  Table table{"Trained numbers, and numbers that are computed once and kept",
              {"encoding", "trained", "kept"},
              {}};
  for (const Cost& cost : all) table.rows.push_back({cost.name, grouped(cost.trained), cost.kept});
  Report& report = tour.report;
  report.paragraph(cat("Sizes of GPT-2 small: model width ", width, ", ", layer_heads, " heads, ",
                       grouped(rows),
                       " positions. An attention layer with its four projections has ",
                       grouped(of_layer), " parameters (`mha.parameter_count()`)."));
  report.table(table);

  const auto trained = [&](const std::string& name) {
    return std::find_if(all.begin(), all.end(), [&](const Cost& c) { return c.name == name; })
        ->trained;
  };
  report.picture(
      picture(all, of_layer),
      cat("The axis is logarithmic: every step is a factor of ten. Only the learned table is "
          "comparable "
          "to a layer: ",
          grouped(rows), " x ", width, " = ", grouped(trained("learned")), " numbers, ",
          percent(static_cast<double>(trained("learned")) / static_cast<double>(of_layer)),
          " of it. The learned biases have a few hundred at most (T5 ", grouped(trained("T5")),
          ", FIRE ", grouped(trained("FIRE")), ", KERPLE ", grouped(trained("KERPLE")),
          "), the others none, so they have no bar."));
}

}  // namespace tour::parameters
