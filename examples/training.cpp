// SPDX-License-Identifier: MIT
// Training of a layer: a causal layer learns to return at each token the token four before it. That
// depends on distances only, and so on the rotary encoding, whose frequencies are trained as well.
#include <posenc/posenc.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iomanip>
#include <iostream>
#include <utility>
#include <vector>

namespace {

using posenc::bsd;
using posenc::Index;
using Tensor = Eigen::Tensor<float, 3, Eigen::RowMajor>;
using Rope = posenc::Rope<posenc::HalfRotate>;
using Module = posenc::MultiHeadAttention<float, Rope>;

constexpr Index batch = 8, seq = 24, dim = 16, back = 4;

/// Adam (arXiv 1412.6980) for one array of parameters.
class Adam {
 public:
  template <class T, class G>
  void step(T* parameters, const G* gradient, Index count, double rate) {
    mean_.resize(static_cast<std::size_t>(count));
    square_.resize(static_cast<std::size_t>(count));
    ++steps_;
    const double of_mean = 1 - std::pow(0.9, steps_), of_square = 1 - std::pow(0.99, steps_);
    for (Index i = 0; i < count; ++i) {
      double &m = mean_[static_cast<std::size_t>(i)], &v = square_[static_cast<std::size_t>(i)];
      const auto g = static_cast<double>(gradient[i]);
      m += 0.1 * (g - m), v += 0.01 * (g * g - v);
      const double change = rate * m / of_mean / (std::sqrt(v / of_square) + 1e-8);
      parameters[i] -= static_cast<T>(change);
    }
  }

 private:
  std::vector<double> mean_, square_;
  double steps_ = 0;
};

Rope make_rope(const std::vector<double>& inv_freq) {
  return Rope(posenc::Frequencies::from_inv_freq(inv_freq));
}

/// Adam for all parameters of the module, array by array.
class Optimiser {
 public:
  explicit Optimiser(std::vector<double> inv_freq) : inv_freq_(std::move(inv_freq)) {}

  void step(Module& module, const Module::Gradients& g) {
    auto adam = adam_.begin();
    const auto of_layer = [&](auto& layer, const auto& gradient) {
      (adam++)->step(layer.weight.data(), gradient.weight.data(), layer.weight.size(), 0.01);
      (adam++)->step(layer.bias.data(), gradient.bias.data(), layer.bias.size(), 0.01);
    };
    of_layer(module.query_projection, g.query_projection);
    of_layer(module.key_projection, g.key_projection);
    of_layer(module.value_projection, g.value_projection);
    of_layer(module.output_projection, g.output_projection);
    adam->step(inv_freq_.data(), g.rotary.data(), std::ssize(inv_freq_), 0.003);
    module.set_rotary(make_rope(inv_freq_));
  }

  const std::vector<double>& inv_freq() const { return inv_freq_; }

 private:
  std::vector<double> inv_freq_;
  std::array<Adam, 9> adam_;
};

/// Draws random signs, the same on every platform; the target is the input `back` tokens before.
void draw(std::uint32_t& state, Tensor& x, Tensor& target) {
  target.setZero();
  for (Index n = 0; n < x.size(); ++n) {
    state = state * 1664525 + 1013904223;
    x.data()[n] = state >> 31 == 0 ? 1.0F : -1.0F;
  }
  for (Index b = 0; b < batch; ++b) {
    for (Index s = back; s < seq; ++s) {
      for (Index d = 0; d < dim; ++d) target(b, s, d) = x(b, s - back, d);
    }
  }
}

double mean_square(const Tensor& y, const Tensor& target) {
  const Eigen::Tensor<float, 0, Eigen::RowMajor> error = (y - target).square().mean();
  return static_cast<double>(error());
}

}  // namespace

int main() {
  std::clog << posenc::build_info() << '\n';
  const std::vector<double> inv_freq = {1, 0.5, 0.25, 0.125};
  Optimiser optimiser(inv_freq);
  Module module({.model_dim = dim, .heads = 2}, make_rope(inv_freq));
  module.randomize(1);

  Tensor x(batch, seq, dim), target(batch, seq, dim), y(batch, seq, dim), grad_y(batch, seq, dim);
  std::vector<double> losses;
  std::uint32_t state = 1;
  const auto positions = posenc::Positions::range(0, seq);
  posenc::MultiHeadTape<float> tape;  // activations for backward(); its memory is reused
  for (int step = 0; step < 400; ++step) {
    draw(state, x, target);
    module.forward(bsd(x), positions, bsd(y), tape, {.causal = posenc::Causal::TopLeft});
    grad_y = (y - target) * (2.0F / static_cast<float>(y.size()));  // of the mean square error
    auto gradients = module.zero_gradients();
    gradients.rotary = module.rotary().zero_frequency_gradient();  // RoPE learns its frequencies
    module.backward(tape, bsd(grad_y), {}, gradients);             // {}: no gradient of x
    optimiser.step(module, gradients);
    losses.push_back(mean_square(y, target));
  }
  std::cout << std::fixed << std::setprecision(3);
  for (const std::size_t step : {0U, 100U, 200U, 300U, 399U}) {
    std::cout << "step " << std::setw(3) << step << ": mean square error " << losses[step] << '\n';
  }
  std::cout << "frequencies now:";
  for (const double w : optimiser.inv_freq()) std::cout << ' ' << w;
  std::cout << '\n';
  return losses.back() < 0.25 * losses.front() ? 0 : 1;
}
