// SPDX-License-Identifier: MIT
// What runs, what it reads, what goes in and comes out, and how many parameters that takes.
#include "chapters.hpp"
#include "encode.hpp"
#include "layer.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <numeric>

namespace tour {

namespace {

/// "[1, 128, 4, 32]"
template <std::size_t Rank>
std::string shape(const std::array<Index, Rank>& extents) {
  std::string text = "[";
  for (const Index extent : extents) text += cat(text == "[" ? "" : ", ", extent);
  return text + "]";
}

std::string first_tokens(const Sample& sample, std::size_t count) {
  std::string text;
  for (std::size_t t = 0; t < count; ++t) text += cat(shortened(sample.tokens[t], 24), " | ");
  return text + "...";
}

void describe_text(Tour& tour) {
  const Sample& sample = tour.sample;
  tour.report.paragraph(cat("The text is ", sample.path.filename().string(), ", ",
                            grouped(sample.bytes), " bytes: ", grouped(sample.words),
                            " tokens (words and punctuation marks), ", grouped(sample.vocabulary),
                            " different ones. The tour reads the first ", sample_length,
                            sample.repeated ? ", from the start again where the text ends" : "",
                            ". Each token gets an embedding, a vector of ", model_dim,
                            " random numbers that is the same wherever the token stands."));
  tour.report.verbatim(first_tokens(sample, 24));
}

/// Runs each kind of encoding once, and writes down what the views said.
Table shapes(const Sample& sample) {
  Matrix x = sample.embeddings;
  const auto positions = posenc::Positions::range(0, x.rows());
  const posenc::EmbeddingsView<float> embeddings = posenc::sd(x);
  const std::string x_shape = shape(embeddings.extents());

  const posenc::Sinusoidal sinusoidal(
      {.model_dim = model_dim, .layout = posenc::SinusoidalLayout::Interleaved});
  sinusoidal.add_to(embeddings, positions);
  const Matrix weights = random_table(x.rows(), model_dim, 1);
  const posenc::Learned<float> learned(posenc::table_view(weights));
  learned.add_to(embeddings, positions);

  const posenc::HeadsView<float> queries = posenc::split_heads(embeddings, heads);
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Unscaled{.rotary_dim = head_dim, .base = 10000});
  rope.rotate(queries, positions);
  const auto table = rope.table<float>(positions);

  Matrix scores = Matrix::Zero(x.rows(), x.rows());
  std::vector<double> where(static_cast<std::size_t>(x.rows()));
  std::iota(where.begin(), where.end(), 0.0);
  const posenc::Alibi alibi({.heads = heads, .form = posenc::AlibiForm::Symmetric});
  const posenc::MatrixView<float> tile = posenc::table_view(scores);
  alibi.add(0, where, where, tile);

  Attended attended = attend(x, positions, {}, rope, posenc::NoBias{});
  const std::string y_shape = shape(posenc::sd(attended.output).extents());
  const std::string weights_shape = shape(posenc::bhqk(attended.weights).extents());

  return {"Shapes: B batch, S tokens, D model width, H heads, d = D / H; positions are 0 .. 127",
          {"call", "input", "output"},
          {{"`sinusoidal.add_to(x, positions)`", "x [B, S, D] = " + x_shape, "x, in place"},
           {"`learned.add_to(x, positions)`", "x [B, S, D] = " + x_shape, "x, in place"},
           {"`rope.rotate(q, positions)`", "q [B, S, H, d] = " + shape(queries.extents()),
            "q, in place"},
           {"`rope.table<float>(positions)`", "positions [S]",
            "cos and sin [B, S, d / 2] = " + shape(table.cos().extents())},
           {"`alibi.add(head, q_pos, k_pos, tile)`",
            "scores of a head [S, S] = " + shape(tile.extents()), "tile, in place"},
           {"`mha.forward(x, positions, y)`", "x [B, S, D] = " + x_shape,
            "y [B, S, D] = " + y_shape + ", weights [B, H, S, S] = " + weights_shape}}};
}

}  // namespace

void show_build_and_shapes(Tour& tour) {
  Report& report = tour.report;
  report.verbatim(cat(posenc::build_info()));
  report.paragraph(
      "Attention compares every token with every other one. By itself it does not know where they "
      "stand: a positional encoding tells it. Position can enter in three places. (1) It is added "
      "to the embeddings before anything else: integer, binary, sinusoidal, learned. (2) Queries "
      "and keys, the vectors that are compared, are turned by an angle that grows with the "
      "position: RoPE. (3) A bias is added to the scores, which are the results of the "
      "comparisons: ALiBi. Attention runs in several heads side by side, each on its part of the "
      "channels.");
  describe_text(tour);
  report.table(shapes(tour.sample));
}

void show_parameters(Tour& tour) {
  constexpr Index width = 768, rows = 1024, layer_heads = 12, dim = width / layer_heads;
  const posenc::MultiHeadAttention<float> layer({.model_dim = width, .heads = layer_heads});
  const Index of_layer = layer.parameter_count();

  const Matrix weights = Matrix::Zero(rows, width);
  const posenc::Learned<float> learned(posenc::table_view(weights));
  const Index of_table = learned.table().rows * learned.table().cols;
  const posenc::Sinusoidal sinusoidal(
      {.model_dim = width, .layout = posenc::SinusoidalLayout::Interleaved});
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  const posenc::Alibi alibi({.heads = layer_heads, .form = posenc::AlibiForm::Causal});

  const auto row = [](const std::string& name, Index trained, Index fixed,
                      const std::string& what) {
    return std::vector<std::string>{name, grouped(trained), cat(grouped(fixed), " ", what)};
  };
  tour.report.paragraph(
      cat("Sizes of GPT-2 small: model width ", width, ", ", layer_heads, " heads, ", grouped(rows),
          " positions. An attention layer with its four projections has ", grouped(of_layer),
          " parameters, as `mha.parameter_count()` says. Only a learned table adds to what is "
          "trained."));
  tour.report.table(
      {"Numbers that an encoding trains, and numbers that it computes once and keeps",
       {"encoding", "trained", "kept"},
       {row("none", 0, 0, ""),
        row("sinusoidal", 0, sinusoidal.frequencies().pairs(), "frequencies"),
        row("learned", of_table, 0, ""), row("RoPE", 0, rope.frequencies().pairs(), "frequencies"),
        row("ALiBi", 0, alibi.heads(), "slopes")}});

  Eigen::MatrixXd bars(5, 2);
  for (Index i = 0; i < 5; ++i) bars.row(i) << static_cast<double>(of_layer) / 1e6, 0;
  bars(2, 1) = static_cast<double>(of_table) / 1e6;
  Figure figure{
      .name = "parameters", .title = "Bar chart of parameter counts", .blocks = {{"bars", bars}}};
  figure.commands = cat(
      R"(set title 'Parameters of one attention layer (768 wide, 12 heads) and of its position encoding'
set style data histograms
set style histogram rowstacked
set style fill solid 0.9 border lc '#ffffff'
set boxwidth 0.6
set ylabel 'parameters, millions'
set yrange [0:4]
set grid y lc '#dddddd'
set bmargin 4
set key top left reverse Left
set xtics ('none' 0, 'sinusoidal' 1, "learned,\n1024 rows" 2, 'RoPE' 3, 'ALiBi' 4) scale 0
set label ')",
      grouped(of_table), R"( more' at 2,)", bars(2, 0) + bars(2, 1) + 0.15, R"( center
plot data index 'bars' using 1 title 'attention layer' lc '#0072b2', '' index 'bars' using 2 title 'positions' lc '#e69f00'
)");
  tour.report.picture(
      figure, cat("One bar is taller: the learned table of ", grouped(rows), " x ", width, " adds ",
                  grouped(of_table), " parameters, ",
                  percent(static_cast<double>(of_table) / static_cast<double>(of_layer)),
                  " of a layer. The other encodings add 0."));
}

}  // namespace tour
