// SPDX-License-Identifier: MIT
#pragma once

#include "sample.hpp"
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/tensor/adapt.hpp>
#include <posenc/tensor/eigen.hpp>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

namespace tour {

/// Projections of the layer: random as at the start of training, or plain so that a pattern shows
/// the effect of the encoding. Plain projections are the identity plus a constant that queries and
/// keys share, which RoPE turns into a preference for near keys.
enum class Projections { Random, Plain };

/// Settings of the layer.
struct LayerSettings {
  Projections projections = Projections::Random;
  posenc::Causal causal = posenc::Causal::No;
};

/// Output of one attention layer.
struct Attended {
  Matrix output;                                     ///< [S, model_dim]
  Eigen::Tensor<float, 4, Eigen::RowMajor> weights;  ///< [1, heads, S, S]
};

/// Returns 1 or -1 in each channel.
Eigen::RowVectorXf shared_part();

/// Sets the four projections.
template <class Layer>
void set_projections(Layer& layer, Projections projections) {
  if (projections == Projections::Random) return layer.randomize(2017);
  for (auto* projection : {&layer.query_projection, &layer.key_projection, &layer.value_projection,
                           &layer.output_projection}) {
    projection->weight = Matrix::Identity(projection->out_dim(), projection->in_dim());
  }
  const Eigen::RowVectorXf part = shared_part();
  for (auto* projection : {&layer.query_projection, &layer.key_projection}) {
    std::copy_n(part.data(), part.size(), projection->bias.data());
  }
}

/// Runs one layer of self attention over a text with the given rotary encoding and score bias.
template <class Rotary, class Bias>
Attended attend(const Matrix& x, const posenc::Positions& positions, const LayerSettings& settings,
                const Rotary& rotary, const Bias& bias) {
  posenc::MultiHeadAttention<float, Rotary, Bias> layer({.model_dim = x.cols(), .heads = heads},
                                                        rotary, bias);
  set_projections(layer, settings.projections);
  Attended result{Matrix(x.rows(), x.cols()),
                  Eigen::Tensor<float, 4, Eigen::RowMajor>(1, heads, x.rows(), x.rows())};
  layer.forward(posenc::sd(x), positions, posenc::sd(result.output), {.causal = settings.causal},
                {.weights = posenc::bhqk(result.weights)});
  return result;
}

/// Encoding in a layer: a function from embeddings and their positions to attention.
struct Scheme {
  std::string name;
  std::function<Attended(Matrix, const posenc::Positions&, const LayerSettings&)> attend;
};

Scheme no_scheme();
Scheme integer_scheme();
Scheme binary_scheme();
Scheme sinusoidal_scheme();
/// Returns the scheme with a random table of `rows` rows, as before training.
Scheme learned_scheme(Index rows, double deviation = 1);
Scheme rope_scheme();
/// Returns the scheme with symmetric ALiBi, for layers with and without a causal mask.
Scheme alibi_scheme();

/// Returns the schemes none, sinusoidal, learned, RoPE, ALiBi.
std::vector<Scheme> main_schemes();

/// Returns the weights [S, S], averaged over the heads.
Eigen::MatrixXd mean_weights(const Attended& attended);

}  // namespace tour
