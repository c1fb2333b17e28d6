// SPDX-License-Identifier: MIT
// The lines of training.md: the backward pass of one attention layer, call by call, with dropout,
// learned slopes of ALiBi and learned frequencies of RoPE, compared with differences of the loss.
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/rotary/frequency_gradient.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/view.hpp>

#include <cmath>
#include <cstdint>
#include <iostream>
#include <vector>

using posenc::Index;
using Rope = posenc::Rope<posenc::HalfRotate>;

namespace {

int failures = 0;

constexpr Index seq = 12, heads = 2, dim = 8;

/// Heads x(s, h, d) of one sequence, in double, so that differences of the loss are accurate.
class Heads {
 public:
  explicit Heads(std::uint32_t state = 0) : numbers_(static_cast<std::size_t>(seq * heads * dim)) {
    for (double& x : numbers_) {
      if (state == 0) break;
      state = state * 1664525 + 1013904223;
      x = static_cast<double>(state) / 2147483648.0 - 1;
    }
  }
  posenc::HeadsView<double> view() {
    return {.data = numbers_.data(), .batch = 1, .seq = seq, .heads = heads, .dim = dim};
  }
  std::vector<double>& numbers() { return numbers_; }

 private:
  std::vector<double> numbers_;
};

/// Parameters of the layer, and the inputs of its attention.
struct Layer {
  Heads q{1}, k{2}, v{3};
  std::vector<double> inv_freq{1, 0.5, 0.25, 0.125}, slopes{0.5, 0.25};

  Rope rope() const { return Rope(posenc::Frequencies::from_inv_freq(inv_freq)); }
  posenc::Alibi alibi() const { return {slopes, posenc::AlibiForm::Causal}; }
};

const auto positions = posenc::Positions::range(0, seq);
const posenc::AttentionOptions<double> options{.causal = posenc::Causal::TopLeft,
                                               .dropout = {.probability = 0.1, .seed = 7}};

/// Record of a forward pass, for backward.
struct Tape {
  Heads q, k, out;  // q and k are rotated
  std::vector<double> lse = std::vector<double>(static_cast<std::size_t>(heads * seq));

  posenc::LseView<double> lse_view() {
    return {.data = lse.data(), .batch = 1, .heads = heads, .queries = seq};
  }
};

/// Returns the loss, the sum of out times `weight`.
double forward(Layer layer, Heads weight, Tape& tape) {
  tape.q = layer.q, tape.k = layer.k;
  layer.rope().rotate_all({tape.q.view(), tape.k.view()}, positions);
  posenc::attention(tape.q.view(), tape.k.view(), layer.v.view(), tape.out.view(), options,
                    layer.alibi(), {.lse = tape.lse_view()});
  double loss = 0;
  for (std::size_t i = 0; i < weight.numbers().size(); ++i) {
    loss += weight.numbers()[i] * tape.out.numbers()[i];
  }
  return loss;
}

/// Compares a gradient with the difference of losses at `parameter` +- step.
template <class Parameter>
void check(const char* name, double gradient, Layer layer, const Heads& weight,
           const Parameter& parameter) {
  constexpr double step = 1e-5;
  Tape tape;
  parameter(layer) += step;
  const double above = forward(layer, weight, tape);
  parameter(layer) -= 2 * step;
  const double difference = (above - forward(layer, weight, tape)) / (2 * step);
  std::cout << name << ": gradient " << gradient << ", difference " << difference << '\n';
  if (!(std::abs(gradient - difference) < 1e-7 && gradient != 0)) ++failures;
}

}  // namespace

int main() {
  Layer layer;
  Heads grad_out(4);
  Tape tape;
  forward(layer, grad_out, tape);

  const Rope rope = layer.rope();
  const posenc::Alibi alibi = layer.alibi();
  Heads grad_q, grad_k, grad_v;
  auto grad_slopes = alibi.zero_gradient();
  posenc::attention_backward<double>(
      tape.q.view(), tape.k.view(), layer.v.view(), tape.out.view(), tape.lse_view(),
      grad_out.view(), {.q = grad_q.view(), .k = grad_k.view(), .v = grad_v.view()},
      options,  // those of the forward call: its seed drops the same probabilities
      alibi, grad_slopes);

  // The gradient of frequencies takes rotated tensors and their gradients, so it comes first.
  auto grad_inv_freq = rope.zero_frequency_gradient();
  accumulate_frequency_gradient(rope, tape.q.view(), grad_q.view(), positions, grad_inv_freq);
  accumulate_frequency_gradient(rope, tape.k.view(), grad_k.view(), positions, grad_inv_freq);
  rope.adjoint_queries(grad_q.view(), positions);
  rope.adjoint_keys(grad_k.view(), positions);

  const std::size_t some = 5 * heads * dim + 3;  // channel 3 of head 0 of token 5
  check("q", grad_q.numbers()[some], layer, grad_out,
        [](Layer& l) -> double& { return l.q.numbers()[some]; });
  check("k", grad_k.numbers()[some], layer, grad_out,
        [](Layer& l) -> double& { return l.k.numbers()[some]; });
  check("v", grad_v.numbers()[some], layer, grad_out,
        [](Layer& l) -> double& { return l.v.numbers()[some]; });
  check("slope of head 1", grad_slopes[1], layer, grad_out,
        [](Layer& l) -> double& { return l.slopes[1]; });
  check("frequency of pair 2", grad_inv_freq[2], layer, grad_out,
        [](Layer& l) -> double& { return l.inv_freq[2]; });
  return failures;
}
