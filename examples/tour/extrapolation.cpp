// SPDX-License-Identifier: MIT
// Layers that are built for 64 tokens and run on 128: which of them run, which throw, and what is
// new to them.
#include "chapters.hpp"
#include "encode.hpp"
#include "layer.hpp"
#include "numbers.hpp"
#include <posenc/posenc.hpp>

namespace tour::extrapolation {

namespace {

std::string sinusoidal_range(const posenc::Positions& positions) {
  const posenc::Sinusoidal encoding(
      {.model_dim = model_dim, .layout = posenc::SinusoidalLayout::Interleaved});
  const Matrix codes = increments(encoding, positions, model_dim);
  return percent(share_in_trained_range(codes.cast<double>())) + " of 128 channels";
}

std::string rope_range(const posenc::Positions& positions) {
  const posenc::Rope<posenc::HalfRotate> rope(
      posenc::Unscaled{.rotary_dim = head_dim, .base = 10000});
  const auto table = rope.table<float>(positions);
  Eigen::MatrixXd codes(positions.count(), head_dim);
  codes << rows_of(table.cos()), rows_of(table.sin());
  return percent(share_in_trained_range(codes)) + " of 32 cos and sin";
}

std::string alibi_range() {
  const posenc::Alibi alibi({.heads = heads, .form = posenc::AlibiForm::Causal});
  Eigen::MatrixXd codes(sample_length, heads);
  for (Index h = 0; h < heads; ++h) {
    for (Index distance = 0; distance < sample_length; ++distance) {
      codes(distance, h) =
          -alibi.slopes()[static_cast<std::size_t>(h)] * static_cast<double>(distance);
    }
  }
  return percent(share_in_trained_range(codes)) + " of 4 biases";
}

struct Outcome {
  std::string verdict, weight;
};

/// Runs a layer on all 128 tokens. The weight is the one that the last query gives to keys 64 or
/// more positions back, which do not occur in training.
Outcome run_on_all(const Scheme& scheme, const Sample& sample) {
  try {
    const auto positions = posenc::Positions::range(0, sample_length);
    const Attended attended =
        scheme.attend(0.5F * sample.embeddings, positions, {.projections = Projections::Plain});
    const double weight =
        mean_weights(attended).row(sample_length - 1).head(sample_length - trained_length).sum();
    return {"runs", percent(weight, 1)};
  } catch (const posenc::PositionError&) {
    return {"throws PositionError", "-"};
  }
}

/// Returns the error message of a table with 64 rows at position 64.
std::string refusal() {
  const Matrix table = random_table(trained_length, model_dim, 1);
  const posenc::Learned<float> learned(posenc::table_view(table));
  Matrix x = Matrix::Zero(sample_length, model_dim);
  try {
    learned.add_to(posenc::sd(x), posenc::Positions::range(0, sample_length));
  } catch (const posenc::PositionError& error) {
    return error.what();
  }
  return "no error";
}

/// Returns a learned table that is resized from 64 to 128 rows.
Scheme resized_scheme() {
  const Matrix table = random_table(trained_length, model_dim, 1);
  Matrix longer(sample_length, model_dim);
  posenc::resize_grid(posenc::table_view(table), posenc::table_view(longer),
                      {.source = {.rows = 1, .cols = trained_length},
                       .target = {.rows = 1, .cols = sample_length},
                       .filter = posenc::ResizeFilter::Bilinear});
  return {"learned, resized to 128 rows",
          [longer](Matrix x, const posenc::Positions& positions, const LayerSettings& settings) {
            const posenc::Learned<float> learned(posenc::table_view(longer));
            learned.add_to(posenc::sd(x), positions);
            return no_scheme().attend(x, positions, settings);
          }};
}

}  // namespace

void show(Tour& tour) {
  const auto positions = posenc::Positions::range(0, sample_length);
  Table table{"Run on 128 tokens of the text, twice the length that the layers are built for",
              {"encoding", "on 128 tokens", "share within the range of the first 64",
               "last query's weight on keys 64 or more back"},
              {}};
  const auto add = [&](const Scheme& scheme, const std::string& range) {
    const Outcome outcome = run_on_all(scheme, tour.sample);
    table.rows.push_back({scheme.name, outcome.verdict, range, outcome.weight});
  };
  add(no_scheme(), "-");
  add(sinusoidal_scheme(), sinusoidal_range(positions));
  add(learned_scheme(trained_length), "-");
  add(resized_scheme(), "interpolated rows");
  add(rope_scheme(), rope_range(positions));
  add(alibi_scheme(), alibi_range());

  Report& report = tour.report;
  report.paragraph(
      "No layer here is trained. Positions 0 to 63 represent the trained length. The table shows "
      "which values at positions 64 to 127 would be new to a trained layer. Half of the keys are "
      "64 "
      "or more positions from the last query. Projections are plain, as in the section on "
      "attention "
      "patterns, so that the weights show the encoding.");
  report.table(table);
  report.paragraph("The learned table has no row 64. It throws before it writes anything:");
  report.verbatim(refusal());
  report.paragraph(
      "Sinusoidal and RoPE run, but their slow channels have values that do not occur in a text of "
      "64 "
      "tokens. Scaling RoPE (above) avoids that. ALiBi's biases are new as well, but a larger "
      "distance only makes a key fade more. The next section shows what that means for trained "
      "models. Without an encoding no value is new, because no value depends on the position.");
}

}  // namespace tour::extrapolation
