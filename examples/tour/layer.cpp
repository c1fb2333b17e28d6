// SPDX-License-Identifier: MIT
#include "layer.hpp"

#include "encode.hpp"
#include "random.hpp"
#include <posenc/posenc.hpp>

namespace tour {

namespace {

/// Runs a layer that gets positions from its input only.
Attended attend_plainly(const Matrix& x, const posenc::Positions& positions,
                        const LayerSettings& settings) {
  return attend(x, positions, settings, posenc::NoRotation{}, posenc::NoBias{});
}

/// Adds the encoding's rows to the embeddings, then attends.
template <class Encoding>
Scheme additive_scheme(const std::string& name, const Encoding& encoding) {
  return {name,
          [encoding](Matrix x, const posenc::Positions& positions, const LayerSettings& settings) {
            encoding.add_to(posenc::sd(x), positions);
            return attend_plainly(x, positions, settings);
          }};
}

}  // namespace

Eigen::RowVectorXf shared_part() {
  Random random(5);
  Eigen::RowVectorXf part(model_dim);
  for (float& channel : part) channel = random.uniform() < 0.5 ? -1.0F : 1.0F;
  return part;
}

Scheme no_scheme() {
  return {"none",
          [](const Matrix& x, const posenc::Positions& positions, const LayerSettings& settings) {
            return attend_plainly(x, positions, settings);
          }};
}

Scheme integer_scheme() { return additive_scheme("integer", posenc::IntegerEncoding()); }

Scheme binary_scheme() {
  return additive_scheme("binary", posenc::BinaryEncoding({.model_dim = model_dim}));
}

Scheme sinusoidal_scheme() {
  return additive_scheme(
      "sinusoidal", posenc::Sinusoidal(
                        {.model_dim = model_dim, .layout = posenc::SinusoidalLayout::Interleaved}));
}

Scheme learned_scheme(Index rows, double deviation) {
  return {"learned",
          [table = random_table(rows, model_dim, 1, deviation)](
              Matrix x, const posenc::Positions& positions, const LayerSettings& settings) {
            const posenc::Learned<float> learned(posenc::table_view(table));
            learned.add_to(posenc::sd(x), positions);
            return attend_plainly(x, positions, settings);
          }};
}

Scheme rope_scheme() {
  return {"RoPE",
          [](const Matrix& x, const posenc::Positions& positions, const LayerSettings& settings) {
            const posenc::Rope<posenc::HalfRotate> rope(
                posenc::Unscaled{.rotary_dim = head_dim, .base = 10000});
            return attend(x, positions, settings, rope, posenc::NoBias{});
          }};
}

Scheme alibi_scheme() {
  return {"ALiBi",
          [](const Matrix& x, const posenc::Positions& positions, const LayerSettings& settings) {
            const posenc::Alibi alibi({.heads = heads, .form = posenc::AlibiForm::Symmetric});
            return attend(x, positions, settings, posenc::NoRotation{}, alibi);
          }};
}

std::vector<Scheme> main_schemes() {
  return {no_scheme(), sinusoidal_scheme(), learned_scheme(sample_length), rope_scheme(),
          alibi_scheme()};
}

Eigen::MatrixXd mean_weights(const Attended& attended) {
  const Index seq = attended.weights.dimension(2);
  Eigen::MatrixXd mean = Eigen::MatrixXd::Zero(seq, seq);
  for (Index h = 0; h < heads; ++h) {
    for (Index i = 0; i < seq; ++i) {
      for (Index j = 0; j < seq; ++j) {
        mean(i, j) += static_cast<double>(attended.weights(0, h, i, j)) / heads;
      }
    }
  }
  return mean;
}

}  // namespace tour
