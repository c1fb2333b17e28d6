// SPDX-License-Identifier: MIT
// bias/: every bias added to a tile of scores, and its gradient.
#include "tensors.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/fire_parameters.hpp>
#include <posenc/bias/forget_gates.hpp>
#include <posenc/bias/forget_gradient.hpp>
#include <posenc/bias/forgetting.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/log_cpb.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/bias/table_gradient.hpp>
#include <posenc/bias/window.hpp>

#include <Eigen/Core>

#include <vector>

using warnings::Index;

template <class Real>
struct Scores {
  std::vector<double> queries{3, 4, 7}, keys{0, 1, 2, 3, 4, 5, 6};
  warnings::Tokens<Real> tile = warnings::ones<Real>(3, 1, 7);

  template <class Bias, class Gradient>
  void add(const Bias& bias, Gradient&& gradient) {
    bias.add(1, queries, keys, tile.matrix());
    bias.template add_gradient<Real>(1, queries, keys, tile.matrix(), gradient);
    // A single score, whose loops compilers unroll.
    const std::vector<double> query{5}, key{2};
    auto score = warnings::ones<Real>(1, 1, 1);
    bias.add(1, query, key, score.matrix());
    tile.values[0] += score.values[0];
  }
};

template <class Real>
double add_functions() {
  Scores<Real> scores;
  const posenc::Alibi alibi({.heads = 4, .form = posenc::AlibiForm::Causal});
  auto of_slopes = alibi.zero_gradient();
  scores.add(alibi, of_slopes);
  const posenc::Kerple power({.form = posenc::KerpleForm::Power, .r1 = {1, 2}, .r2 = {1, 0.5}}),
      logarithmic({.form = posenc::KerpleForm::Logarithmic, .r1 = {1, 2}, .r2 = {1, 0.5}});
  auto of_kerple = power.zero_gradient();
  scores.add(power, of_kerple);
  scores.add(logarithmic, of_kerple);
  const posenc::Fire fire({.c = 1,
                           .threshold = 3,
                           .hidden_weight = {1, -1},
                           .hidden_bias = {0, 0.5},
                           .output_weight = {1, 2, 3, 4},
                           .output_bias = {0, 0}});
  posenc::FireParameters of_fire = fire.zero_gradient();
  scores.add(fire, of_fire);
  return of_slopes[0] + of_kerple.r1[0] + of_fire.c + static_cast<double>(scores.tile.values[1]);
}

template <class T>
double add_tables() {
  Scores<posenc::Compute<T>> scores;
  auto t5_table = warnings::ones<T>(32, 1, 4), window_table = warnings::ones<T>(18, 1, 4);
  const posenc::T5Bias<T> t5(t5_table.matrix(), {.direction = posenc::T5Direction::Causal});
  posenc::TableGradient gradient = t5.zero_gradient();
  scores.add(t5, gradient);
  const posenc::WindowBias<T> window(window_table.matrix(),
                                     {.rows = 2, .cols = 3, .class_token = true});
  auto of_window = window.zero_gradient();
  scores.queries = {0, 1, 2}, scores.keys = {0, 1, 2, 3, 4, 5, 6};
  scores.add(window, of_window);
  const posenc::LogCpb network(
      {.hidden_weight = {1, 2, 3, 4}, .hidden_bias = {0, 1}, .output_weight = {1, -1, 0.5, 2}},
      {.rows = 2, .cols = 3});
  auto table = warnings::ones<T>(15, 1, 2);
  network.evaluate(table.matrix());
  auto of_network = network.zero_gradient();
  network.add_gradient<T>(table.matrix(), of_network);
  return gradient.view().row(0)[1] + of_window.view().row(0)[1] +
         static_cast<double>(table.values[3]);
}

template <class T>
double forget() {
  using Real = posenc::Compute<T>;
  auto logits = warnings::ones<T>(7, 1, 2), gradient = logits;
  posenc::ForgetGates gates(1, 2);
  gates.append({0}, logits.rows());
  const std::vector<Index> sequences{0};
  const posenc::ForgettingBias bias(gates, sequences);
  auto tile = warnings::ones<Real>(3, 1, 7);
  const std::vector<double> queries{4, 5, 6}, keys{0, 1, 2, 3, 4, 5, 6};
  const posenc::TokenTile tokens{
      .aligned_key = 4, .query_positions = queries, .key_positions = keys};
  bias.add(tokens, tile.matrix());
  posenc::ForgetGradient of_gates = bias.zero_gradient();
  bias.add_gradient<Real>(tokens, tile.matrix(), of_gates);
  of_gates.logits(0, logits.rows(), gradient.rows());
  gates.erase(0, 1, 2);
  gates.truncate(0, 3);
  return static_cast<double>(gradient.values[1]) + static_cast<double>(tile.values[2]);
}

double use_biases() {
  return add_functions<float>() + add_functions<double>() + add_tables<float>() +
         add_tables<double>() + add_tables<Eigen::bfloat16>() + forget<float>() + forget<double>() +
         forget<Eigen::bfloat16>();
}
