// SPDX-License-Identifier: MIT
#pragma once

#include "module_case.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/tensor/eigen.hpp>

#include <cmath>
#include <string>
#include <vector>

// Compares the gradients of a module with central differences of sum(out * grad_out), in double.
namespace module_test {

struct TrainingShape {
  Index batch = 2, queries = 3, keys = 4;
};

/// Module with all inputs of a training step.
template <class Make>
struct Training {
  using Module = decltype(std::declval<Make>()());
  using Tensor = Embeddings<double>;

  /// make() returns a module with the current numbers of the encodings, which may change between
  /// calls.
  Training(const Make& made_by, const TrainingShape& shape, bool self_attention)
      : make(made_by), is_self(self_attention), module(made_by()) {
    const auto& config = module.config();
    support::Random random(1);
    const auto fill = [&](auto* data, Index count, double deviation) {
      for (Index n = 0; n < count; ++n) data[n] = deviation * random.normal();
    };
    for (auto* layer : layers(module)) {
      fill(layer->weight.data(), layer->weight.size(), 0.5);
      fill(layer->bias.data(), layer->bias.size(), 0.5);
    }
    for (auto* norm : {&module.query_norm, &module.key_norm}) {
      fill(norm->data(), norm->size(), 1);
    }
    const Index key_count = is_self ? shape.queries : shape.keys;
    x = Tensor(shape.batch, shape.queries, config.model_dim);
    keys = Tensor(shape.batch, key_count, config.key_input_dim);
    values = Tensor(shape.batch, key_count, config.value_input_dim);
    grad_out = Tensor(shape.batch, shape.queries, config.model_dim);
    for (auto* tensor : {&x, &keys, &values, &grad_out}) fill(tensor->data(), tensor->size(), 1);
    // Distances of one and more, different in all batch rows.
    std::vector<double> at, keys_at;
    for (Index n = 0; n < shape.batch * shape.queries; ++n) at.push_back(1.5 * double(n));
    for (Index n = 0; n < shape.batch * key_count; ++n) keys_at.push_back(double(n) - 0.25);
    positions.push_back(posenc::Positions::real(shape.batch, at));
    positions.push_back(posenc::Positions::real(shape.batch, keys_at));
  }

  static auto layers(auto& of) {
    return std::array{&of.query_projection, &of.key_projection, &of.value_projection,
                      &of.output_projection};
  }

  template <class... Tape>
  Tensor forward(const Module& with, Tape&... tape) const {
    Tensor out(x.dimensions());
    if (is_self) {
      with.forward(posenc::bsd(x), positions[0], posenc::bsd(out), tape..., options);
    } else {
      with.forward(posenc::bsd(x), positions[0], posenc::bsd(keys), posenc::bsd(values),
                   positions[1], posenc::bsd(out), tape..., options);
    }
    return out;
  }

  double loss() const {
    Module fresh = make();
    for (std::size_t n = 0; n < 4; ++n) *layers(fresh)[n] = *layers(module)[n];
    fresh.query_norm = module.query_norm;
    fresh.key_norm = module.key_norm;
    const Tensor out = forward(fresh);
    double sum = 0;
    for (Index n = 0; n < out.size(); ++n) sum += out.data()[n] * grad_out.data()[n];
    return sum;
  }

  /// Checks `gradient` against the slopes of the loss in numbers[0 .. count - 1].
  void check(const std::string& what, double* numbers, const double* gradient, Index count) const {
    INFO(what);
    constexpr double step = 0x1p-13;
    double worst = 0;
    for (Index n = 0; n < count; ++n) {
      const double number = numbers[n];
      const auto at = [&](double distance) {
        numbers[n] = number + distance * step;
        return loss();
      };
      // The truncation error is of fourth order, about 1e-14. It is below the rounding error, about
      // 1e-11.
      const double slope = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step);
      numbers[n] = number;
      worst = support::worse(worst, std::abs(gradient[n] - slope) / (1 + std::abs(slope)));
    }
    CHECK(worst < 1e-9);
  }

  /// Checks backward() for all inputs and projections. Other gradients to compute are set in
  /// `gradients`.
  template <class Gradients>
  void check_all(Gradients& gradients) {
    posenc::MultiHeadTape<double> tape;
    (void)forward(module, tape);
    REQUIRE(tape.holds_pass());
    Tensor of_x(x.dimensions()), of_keys(keys.dimensions()), of_values(values.dimensions());
    if (is_self) {
      module.backward(tape, posenc::bsd(grad_out), posenc::bsd(of_x), gradients);
    } else {
      module.backward(tape, posenc::bsd(grad_out), posenc::bsd(of_x), posenc::bsd(of_keys),
                      posenc::bsd(of_values), gradients);
      check("keys_from", keys.data(), of_keys.data(), keys.size());
      check("values_from", values.data(), of_values.data(), values.size());
    }
    check("x", x.data(), of_x.data(), x.size());
    const std::array of_layers{&gradients.query_projection, &gradients.key_projection,
                               &gradients.value_projection, &gradients.output_projection};
    for (std::size_t n = 0; n < 4; ++n) {
      auto& layer = *layers(module)[n];
      const std::string which = "projection " + std::to_string(n);
      check(which, layer.weight.data(), of_layers[n]->weight.data(), layer.weight.size());
      check(which, layer.bias.data(), of_layers[n]->bias.data(), layer.bias.size());
    }
    auto &of_queries = gradients.query_norm, &of_key_norm = gradients.key_norm;
    check("query_norm", module.query_norm.data(), of_queries.data(), of_queries.size());
    check("key_norm", module.key_norm.data(), of_key_norm.data(), of_key_norm.size());
  }

  Make make;
  bool is_self;
  Module module;
  Tensor x, keys, values, grad_out;
  std::vector<posenc::Positions> positions;  ///< of queries, of keys
  posenc::AttentionOptions<double> options{.causal = posenc::Causal::No};
};

}  // namespace module_test
