// SPDX-License-Identifier: MIT
// Build, text, and shapes of inputs and outputs.
#include "chapters.hpp"
#include "encode.hpp"
#include "layer.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

#include <numeric>

namespace tour::overview {

namespace {

/// Returns extents like "[1, 128, 4, 32]".
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
                            sample.repeated ? ", repeated if the text is shorter" : "",
                            ". Each token gets an embedding, a vector of ", model_dim,
                            " random numbers that does not depend on its position."));
  tour.report.verbatim(first_tokens(sample, 24));
}

/// Runs each kind of encoding once and returns the shapes of its views.
Table shapes(const Sample& sample) {
  Matrix x = sample.embeddings;
  const auto positions = posenc::Positions::range(0, x.rows());
  const posenc::EmbeddingsView<float> embeddings = posenc::sd(x);
  const std::string x_shape = shape(embeddings.extents());

  const posenc::Sinusoidal sinusoidal(
      {.model_dim = model_dim, .layout = posenc::SinusoidalLayout::Interleaved});
  // excerpt: where_position_enters
  sinusoidal.add_to(embeddings, positions);  // 1
  // end of excerpt
  const Matrix weights = random_table(x.rows(), model_dim, 1);
  const posenc::Learned<float> learned(posenc::table_view(weights));
  learned.add_to(embeddings, positions);

  const posenc::HeadsView<float> queries = posenc::split_heads(embeddings, heads);
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Unscaled{.rotary_dim = head_dim, .base = 10000});
  // excerpt: where_position_enters
  rope.rotate(queries, positions);  // 2, and the keys
  // end of excerpt
  const auto table = rope.table<float>(positions);

  Matrix scores = Matrix::Zero(x.rows(), x.rows());
  std::vector<double> where(static_cast<std::size_t>(x.rows()));
  std::iota(where.begin(), where.end(), 0.0);
  const posenc::Alibi alibi({.heads = heads, .form = posenc::AlibiForm::Symmetric});
  const posenc::MatrixView<float> tile = posenc::table_view(scores);
  // excerpt: where_position_enters
  alibi.add(0, where, where, tile);  // 3: the scores of head 0
  // end of excerpt

  const Matrix of_windows = random_table((2 * 8 - 1) * (2 * 16 - 1), heads, 2);
  const posenc::WindowBias<float> window(posenc::table_view(of_windows), {.rows = 8, .cols = 16});
  window.add(0, where, where, tile);

  // A bias that depends on the query or its token goes into attention, in the place of a bias.
  const Matrix distances = random_table(33, head_dim, 3);
  posenc::RelativeBias<float> shaw;
  shaw.table = {.data = distances.data(), .batch = 1, .seq = 33, .heads = 1, .dim = head_dim};
  shaw.index = {.order = posenc::RelativeOrder::KeyMinusQuery,
                .first = -16,
                .beyond = posenc::BeyondTable::Nearest};
  shaw.scale = posenc::RelativeScale::Scaled;
  Matrix mixed = Matrix::Zero(x.rows(), model_dim);
  const posenc::HeadsView<float> out = posenc::split_heads(posenc::sd(mixed), heads);
  posenc::attention(queries, queries, queries, out, {.causal = posenc::Causal::TopLeft}, shaw);
  posenc::ForgetGates gates(1, heads);
  const Matrix logits = random_table(x.rows(), heads, 4);
  gates.append(0, posenc::sd(logits));
  const std::vector<Index> sequences{0};
  const posenc::ForgettingBias forgetting(gates, sequences);
  posenc::attention(queries, queries, queries, out, {.causal = posenc::Causal::TopLeft},
                    forgetting);

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
           {"`window.add(head, q_pos, k_pos, tile)`, windows of 8 x 16",
            "table [15 * 31, H] = " + shape(posenc::table_view(of_windows).extents()),
            "scores of a head, in place"},
           {"`attention(q, k, v, out, options, shaw)`",
            "table [1, distances, 1, d] = " + shape(shaw.table.extents()),
            "out [B, S, H, d] = " + shape(out.extents())},
           {"`gates.append(sequence, logits)`, then `attention(..., forgetting)`",
            "logits [B, S, H] = " + shape(posenc::sd(logits).extents()),
            "out [B, S, H, d] = " + shape(out.extents())},
           {"`mha.forward(x, positions, y, options)`", "x [B, S, D] = " + x_shape,
            "y [B, S, D] = " + y_shape + ", weights [B, H, S, S] = " + weights_shape}}};
}

}  // namespace

void show(Tour& tour) {
  Report& report = tour.report;
  report.verbatim(cat(posenc::build_info()));
  describe_text(tour);
  report.table(shapes(tour.sample));
}

}  // namespace tour::overview
