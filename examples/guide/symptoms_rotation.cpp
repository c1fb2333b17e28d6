// SPDX-License-Identifier: MIT
// A head that has learned to look a number of tokens back, run with a wrong pairing, base, scaling or attention factor.
// Prints the share of the right score that the engine finds there.
#include <posenc/frequency/llama3.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/rotary/permute.hpp>
#include <posenc/rotary/rope.hpp>

#include <cmath>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <span>
#include <vector>

using posenc::Index;
using posenc::Positions;

namespace {

constexpr Index dim = 128, here = 100000;  // channels of a head; position of the query

posenc::HeadsView<float> view(std::vector<float>& x) {
  return {.data = x.data(), .batch = 1, .seq = 1, .heads = 1, .dim = dim};
}

std::vector<float> content() {
  std::vector<float> x;
  for (Index i = 0; i < dim; ++i) x.push_back(std::sin(static_cast<float>(i * i % 101 + 1)));
  return x;
}

// [head]
/// Returns the score of a head that looks `distance` tokens back, relative to its score with the
/// model's own rope. Training has found a query that fits keys so far away.
template <class Model, class Engine>
float found(const posenc::Rope<Model>& model, const posenc::Rope<Engine>& engine, Index distance) {
  std::vector<float> k = content(), q = k;
  const float best = std::inner_product(q.begin(), q.end(), k.begin(), 0.0F);
  model.inverse(view(q), Positions::range(distance, 1));
  engine.rotate(view(q), Positions::range(here, 1));
  engine.rotate(view(k), Positions::range(here - distance, 1));
  return std::inner_product(q.begin(), q.end(), k.begin(), 0.0F) / best;
}
// [/head]

/// Prints and returns the shares at some distances.
template <class Model, class Engine>
std::vector<float> row(const char* name, const posenc::Rope<Model>& model,
                       const posenc::Rope<Engine>& engine) {
  std::vector<float> shares;
  std::cout << std::setw(28) << name;
  for (const Index distance : {0, 1, 20, 500, 4000, 20000}) {
    shares.push_back(found(model, engine, distance));
    std::cout << std::setw(8) << shares.back();
  }
  std::cout << '\n';
  return shares;
}

/// The same head with projection rows that permute_pairs() has converted, distance 20.
float found_after_permutation(const posenc::Rope<posenc::HalfRotate>& model,
                              const posenc::Rope<posenc::Interleaved>& engine) {
  constexpr Index distance = 20;
  std::vector<float> k = content(), q = k;
  const float best = std::inner_product(q.begin(), q.end(), k.begin(), 0.0F);
  model.inverse(view(q), Positions::range(distance, 1));
  // [permute]
  // Converts the rows of W_q and W_k; here the bias of a head, which consists of such rows.
  posenc::permute_pairs<posenc::HalfRotate, posenc::Interleaved>(
      std::span<float>(q), {.head_dim = dim, .rotary_dim = dim});
  posenc::permute_pairs<posenc::HalfRotate, posenc::Interleaved>(
      std::span<float>(k), {.head_dim = dim, .rotary_dim = dim});
  // [/permute]
  engine.rotate(view(q), Positions::range(here, 1));
  engine.rotate(view(k), Positions::range(here - distance, 1));
  return std::inner_product(q.begin(), q.end(), k.begin(), 0.0F) / best;
}

/// Returns by what the scores of a query and a key at one position are multiplied.
float factor_of_scores(const posenc::YarnScaling& rule) {
  const posenc::Rope<posenc::HalfRotate> rope(rule);
  std::vector<float> q = content(), k = q;
  const float before = std::inner_product(q.begin(), q.end(), k.begin(), 0.0F);
  rope.rotate_all({view(q), view(k)}, Positions::range(here, 1));
  return std::inner_product(q.begin(), q.end(), k.begin(), 0.0F) / before;
}

bool is_near(float x, float expected, float tolerance = 2e-3F) {
  return std::abs(x - expected) < tolerance;
}

}  // namespace

int main() {
  bool ok = true;
  const auto check = [&ok](bool condition, const char* what) {
    if (!condition) std::cout << "wrong: " << what << '\n';
    ok = ok && condition;
  };
  std::cout << std::fixed << std::setprecision(2) << std::setw(28) << "tokens back"
            << "       0       1      20     500    4000   20000\n";
  // [ropes]
  const posenc::Llama3Scaling llama{.rotary_dim = dim,
                                    .base = 500000,
                                    .factor = 8,
                                    .low_freq_factor = 1,
                                    .high_freq_factor = 4,
                                    .original_max_position = 8192};
  const posenc::Rope<posenc::HalfRotate> model(llama);
  const posenc::Rope<posenc::Interleaved> wrong_pairing(llama);
  const posenc::Rope<posenc::HalfRotate> wrong_base(
      posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  const posenc::Rope<posenc::HalfRotate> no_scaling(
      posenc::Unscaled{.rotary_dim = dim, .base = 500000});
  // [/ropes]
  const auto right = row("the model's rope", model, model);
  for (const float share : right) check(is_near(share, 1), "the right rope finds all");
  const auto pairing = row("wrong pairing", model, wrong_pairing);
  check(is_near(pairing[0], 1) && pairing[2] < 0.8F && pairing[3] < 0.5F,
        "a wrong pairing loses all but the own token");
  check(is_near(found_after_permutation(model, wrong_pairing), 1),
        "permuted weights fit the other pairing");
  const auto base = row("wrong base", model, wrong_base);
  check(base[1] > 0.9F && base[3] < 0.7F, "a wrong base loses what is far");
  const auto scaling = row("scaling dropped", model, no_scaling);
  check(scaling[3] > 0.95F && scaling[5] < 0.8F, "dropped scaling loses what is farther still");

  // [factor]
  const posenc::YarnScaling yarn{
      .rotary_dim = dim, .base = 10000, .factor = 32, .original_max_position = 4096};
  const double m = posenc::yarn_mscale(yarn.factor);  // 1.35, the factor of cos and sin
  auto dropped = yarn, twice = yarn;
  dropped.attention_factor = 1;
  twice.attention_factor = m * m;
  // [/factor]
  std::cout << "scores times: " << factor_of_scores(yarn) << "; without the attention factor "
            << factor_of_scores(dropped) << ", with it twice " << factor_of_scores(twice) << '\n';
  const auto square = static_cast<float>(m * m);
  check(is_near(factor_of_scores(yarn), square) && is_near(factor_of_scores(dropped), 1) &&
            is_near(factor_of_scores(twice), square * square, 1e-2F),
        "scores have the square of the attention factor");
  return ok ? 0 : 1;
}
