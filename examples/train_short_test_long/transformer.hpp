// SPDX-License-Identifier: MIT
#pragma once

#include "../tour/random.hpp"
#include "layers.hpp"
#include "model.hpp"
#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/nn/linear.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/tensor/positions.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace study {

/// Encoding that is added to the embeddings.
enum class Addition { Nothing, Sinusoidal, Learned };

/// Decoder-only transformer (arXiv 1706.03762) with normalisation before each layer:
///   x = embedding[byte] + encoding;  in each block  x += attention(norm(x)),  x += down relu(up norm(x));
///   logits = output norm(x)
///   Rotary: a RotaryEncoding
///   Bias:   a part of biases.hpp, which computes a block's score bias from the block's parameters
template <class T, class Rotary, class Bias>
class Transformer final : public LanguageModel<T> {
  using Attention = posenc::MultiHeadAttention<T, Rotary, typename Bias::Type>;
  using AttentionGradients = decltype(std::declval<const Attention&>().zero_gradients());

  /// Parameters, or gradients with the same names and shapes.
  template <class Projections, class Linear>
  struct Block {
    std::vector<T> attention_norm, mlp_norm, bias;
    std::optional<Projections> attention;
    Linear up, down;
  };
  template <class Projections, class Linear>
  struct Weights {
    Matrix<T> embedding, positions;
    std::vector<Block<Projections, Linear>> blocks;
    std::vector<T> final_norm;
    Linear output;
  };

  /// Activations of a block's forward pass that its backward pass needs, and the block's objects.
  struct Activations {
    explicit Activations(const Shape& shape) : bias(shape) {}

    Matrix<T> x, attention_in, between, mlp_in, hidden;
    posenc::MultiHeadTape<T> tape;
    posenc::MultiHeadWorkspace workspace;
    Bias bias;
  };

 public:
  Transformer(const Shape& shape, Rotary rotary, Addition addition)
      : shape_(shape), rotary_(std::move(rotary)), addition_(addition) {
    for (Index n = 0; n < shape.layers; ++n) activations_.emplace_back(shape);
    weights_.output = posenc::Linear<T>(shape.width, shape.bytes, false);
    for (Index n = 0; n < shape.layers; ++n) {
      auto& block = weights_.blocks.emplace_back();
      block.up = posenc::Linear<T>(shape.width, 4 * shape.width, false);
      block.down = posenc::Linear<T>(4 * shape.width, shape.width, false);
    }
    gradients_.output = posenc::LinearParameters<T>(shape.width, shape.bytes, false);
    for (Index n = 0; n < shape.layers; ++n) {
      auto& block = gradients_.blocks.emplace_back();
      block.up = posenc::LinearParameters<T>(shape.width, 4 * shape.width, false);
      block.down = posenc::LinearParameters<T>(4 * shape.width, shape.width, false);
    }
    size(weights_);
    size(gradients_);
    for (Index n = 0; n < shape.layers; ++n) make_attention(n);
  }

  Index parameter_count() const override {
    Index count = 0;
    walk(weights_, [&](auto values) { count += static_cast<Index>(values.size()); });
    return count;
  }

  Index product_parameters() const override {
    Index count = weights_.output.parameter_count();
    for (const auto& block : weights_.blocks) {
      count += block.attention->parameter_count() + block.up.parameter_count() +
               block.down.parameter_count();
    }
    return count;
  }

  void initialise(std::uint64_t seed, std::span<T> parameters) override {
    tour::Random random(mixed(seed, 1, 0));
    const auto fill = [&](auto& values, double deviation) {
      for (Index i = 0; i < static_cast<Index>(values.size()); ++i) {
        values.data()[i] = static_cast<T>(deviation * random.normal());
      }
    };
    fill(weights_.embedding, 1);
    fill(weights_.positions, 0.5);
    std::uint64_t number = 0;
    const auto next = [&] { return mixed(seed, 2, number++) >> 2; };
    for (std::size_t n = 0; n < weights_.blocks.size(); ++n) {
      auto& block = weights_.blocks[n];
      std::fill(block.attention_norm.begin(), block.attention_norm.end(), T{1});
      std::fill(block.mlp_norm.begin(), block.mlp_norm.end(), T{1});
      activations_[n].bias.initialise(random, block.bias);
      block.attention->randomize(next());
      block.up.randomize(next());
      block.down.randomize(next());
    }
    std::fill(weights_.final_norm.begin(), weights_.final_norm.end(), T{1});
    weights_.output.randomize(next());
    copy_out(weights_, parameters);
  }

  void constrain(std::span<T> parameters) const override {
    auto rest = parameters;
    walk(weights_, [&](auto values) {
      for (const auto& block : weights_.blocks) {
        if (values.data() == block.bias.data()) Bias::constrain(rest.first(values.size()));
      }
      rest = rest.subspan(values.size());
    });
  }

  void load(std::span<const T> parameters) override {
    auto rest = parameters;
    walk(weights_, [&](auto values) {
      std::copy_n(rest.begin(), values.size(), values.begin());
      rest = rest.subspan(values.size());
    });
    if constexpr (Bias::is_made_anew) {
      for (Index n = 0; n < shape_.layers; ++n) make_attention(n);
    }
  }

  double loss(const Windows& windows) override {
    forward(windows, {});
    return cross_entropy(logits_, targets(windows), T{0});
  }

  double loss_and_gradient(const Windows& windows, T scale, std::span<T> gradient) override {
    walk(gradients_, [](auto values) { std::fill(values.begin(), values.end(), T{0}); });
    forward(windows, [&](Index n, const Matrix<T>& x, Matrix<T>& out) {
      auto& kept = activations_[at(n)];
      attention(n).forward(tokens(x, windows.rows), positions_of(windows),
                           tokens(out, windows.rows), kept.tape, options,
                           {.workspace = &kept.workspace});
    });
    const double nats = cross_entropy(logits_, targets(windows), scale);
    backward(windows);
    copy_out(gradients_, gradient);
    return nats;
  }

  Matrix<double> attention_by_distance(const Windows& windows) override {
    // excerpt: attention_by_distance
    const Index rows = windows.rows, heads = shape_.heads, length = windows.length;
    Matrix<double> means = Matrix<double>::Zero(shape_.layers * heads, length);
    std::vector<T> weights(at(rows * heads * length * length));
    const posenc::ScoresView<T> view{weights.data(), rows, heads, length, length};
    forward(windows, [&](Index n, const Matrix<T>& x, Matrix<T>& out) {
      attention(n).forward(tokens(x, rows), positions_of(windows), tokens(out, rows), options,
                           {.weights = view});
      for (Index b = 0; b < rows; ++b) {
        for (Index h = 0; h < heads; ++h) {
          for (Index i = 0; i < length; ++i) {
            for (Index d = 0; d <= i; ++d) {
              const auto count = static_cast<double>(rows * (length - d));
              means(n * heads + h, d) += static_cast<double>(view(b, h, i, i - d)) / count;
            }
          }
        }
      }
    });
    // end of excerpt
    return means;
  }

 private:
  static inline const posenc::AttentionOptions<T> options{.causal = posenc::Causal::TopLeft};

  static std::size_t at(Index n) { return static_cast<std::size_t>(n); }
  const Attention& attention(Index n) const { return *weights_.blocks[at(n)].attention; }
  static posenc::Positions positions_of(const Windows& windows) {
    return posenc::Positions::range(0, windows.length);
  }

  /// Runs a call and adds its time.
  template <class Call>
  static void timed(double& seconds, const Call& call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  template <class Call>
  void product(const Call& call) {
    timed(this->spent.products, call);
  }

  /// Calls f(values) for all parameters, or gradients, in one order.
  template <class W, class F>
  static void walk(W& weights, const F& f) {
    const auto each = [&f](auto&... all) {
      (f(std::span(all.data(), static_cast<std::size_t>(all.size()))), ...);
    };
    each(weights.embedding, weights.positions);
    for (auto& block : weights.blocks) {
      each(block.attention_norm, block.attention->query_projection.weight,
           block.attention->key_projection.weight, block.attention->value_projection.weight,
           block.attention->output_projection.weight, block.bias, block.mlp_norm, block.up.weight,
           block.down.weight);
    }
    each(weights.final_norm, weights.output.weight);
  }
  template <class W>
  static void copy_out(const W& weights, std::span<T> to) {
    walk(weights, [&](auto values) {
      std::copy(values.begin(), values.end(), to.begin());
      to = to.subspan(values.size());
    });
  }

  template <class W>
  void size(W& weights) {
    weights.embedding = Matrix<T>::Zero(shape_.bytes, shape_.width);
    const bool learned = addition_ == Addition::Learned;
    weights.positions = Matrix<T>::Zero(learned ? shape_.length : 0, shape_.width);
    weights.final_norm.resize(at(shape_.width));
    for (std::size_t n = 0; n < weights.blocks.size(); ++n) {
      auto& block = weights.blocks[n];
      block.attention_norm.resize(at(shape_.width));
      block.mlp_norm.resize(at(shape_.width));
      block.bias.resize(at(activations_[n].bias.parameter_count()));
    }
  }

  /// Constructs the attention of a block, with the bias of its parameters and its old projections.
  void make_attention(Index n) {
    auto& block = weights_.blocks[at(n)];
    Attention made({.model_dim = shape_.width, .heads = shape_.heads, .projection_bias = false},
                   rotary_, activations_[at(n)].bias.make(block.bias));
    if (block.attention) {
      made.query_projection = std::move(block.attention->query_projection);
      made.key_projection = std::move(block.attention->key_projection);
      made.value_projection = std::move(block.attention->value_projection);
      made.output_projection = std::move(block.attention->output_projection);
    }
    block.attention.emplace(std::move(made));
    if (!gradients_.blocks[at(n)].attention) {
      gradients_.blocks[at(n)].attention = block.attention->zero_gradients();
    }
  }

  void embed(const Windows& windows, Matrix<T>& x) const {
    x.resize(windows.rows * windows.length, shape_.width);
    for (Index r = 0; r < windows.rows; ++r) {
      for (Index i = 0; i < windows.length; ++i) {
        x.row(r * windows.length + i) = weights_.embedding.row(windows.row(r)[i]);
      }
    }
    if (addition_ == Addition::Sinusoidal) {
      const posenc::Sinusoidal encoding(
          {.model_dim = shape_.width, .layout = posenc::SinusoidalLayout::Interleaved});
      encoding.add_to(tokens(x, windows.rows), positions_of(windows));
    } else if (addition_ == Addition::Learned) {
      learned().add_to(tokens(x, windows.rows), positions_of(windows));
    }
  }

  posenc::Learned<T> learned() const {
    const auto& table = weights_.positions;
    return posenc::Learned<T>(
        posenc::MatrixView<const T>{table.data(), table.rows(), table.cols()});
  }

  static std::vector<std::uint8_t> targets(const Windows& windows) {
    std::vector<std::uint8_t> all;
    for (Index r = 0; r < windows.rows; ++r) {
      all.insert(all.end(), windows.row(r) + 1, windows.row(r) + 1 + windows.length);
    }
    return all;
  }

  /// Computes the logits. attend(n, x, out) runs the attention of block n.
  template <class Attend>
  void forward(const Windows& windows, const Attend& attend) {
    embed(windows, x_);
    for (Index n = 0; n < shape_.layers; ++n) {
      const auto& block = weights_.blocks[at(n)];
      Activations& kept = activations_[at(n)];
      kept.x = x_;
      rms_norm(x_, block.attention_norm, kept.attention_in);
      out_.resize(x_.rows(), x_.cols());
      timed(this->spent.attention, [&] {
        kept.bias.see(block.bias, kept.attention_in, windows.rows);
        attend(n, kept.attention_in, out_);
      });
      x_ += out_;
      kept.between = x_;
      rms_norm(x_, block.mlp_norm, kept.mlp_in);
      kept.hidden.resize(x_.rows(), block.up.out_dim());
      product([&] { block.up.apply(tokens(std::as_const(kept.mlp_in)), tokens(kept.hidden)); });
      kept.hidden = kept.hidden.cwiseMax(T{0});
      product([&] { block.down.apply(tokens(std::as_const(kept.hidden)), tokens(out_)); });
      x_ += out_;
    }
    rms_norm(x_, weights_.final_norm, final_);
    logits_.resize(x_.rows(), shape_.bytes);
    product([&] { weights_.output.apply(tokens(std::as_const(final_)), tokens(logits_)); });
  }
  struct Inference {};
  void forward(const Windows& windows, Inference) {
    forward(windows, [&](Index n, const Matrix<T>& x, Matrix<T>& out) {
      attention(n).forward(tokens(x, windows.rows), positions_of(windows),
                           tokens(out, windows.rows), options,
                           {.workspace = &activations_[at(n)].workspace});
    });
  }

  /// Computes the gradients of all parameters from that of the logits, which has replaced the
  /// logits.
  void backward(const Windows& windows) {
    Matrix<T>&grad = grad_, &grad_in = grad_in_, &grad_hidden = grad_hidden_;
    grad_in.resize(x_.rows(), shape_.width);
    grad_hidden.resize(x_.rows(), 4 * shape_.width);
    product([&] {
      weights_.output.backward(tokens(std::as_const(final_)), tokens(std::as_const(logits_)),
                               tokens(grad_in), gradients_.output);
    });
    grad.setZero(x_.rows(), shape_.width);
    rms_norm_backward(x_, weights_.final_norm, grad_in, grad, gradients_.final_norm);
    for (Index n = shape_.layers; n-- > 0;) {
      const auto& block = weights_.blocks[at(n)];
      auto& gradients = gradients_.blocks[at(n)];
      Activations& kept = activations_[at(n)];
      product([&] {
        block.down.backward(tokens(std::as_const(kept.hidden)), tokens(std::as_const(grad)),
                            tokens(grad_hidden), gradients.down);
      });
      relu_backward(kept.hidden, grad_hidden);
      product([&] {
        block.up.backward(tokens(std::as_const(kept.mlp_in)), tokens(std::as_const(grad_hidden)),
                          tokens(grad_in), gradients.up);
      });
      rms_norm_backward(kept.between, block.mlp_norm, grad_in, grad, gradients.mlp_norm);
      timed(this->spent.attention, [&] {
        gradients.attention = attention(n).zero_gradients();
        attention(n).backward(kept.tape, tokens(std::as_const(grad), windows.rows),
                              tokens(grad_in, windows.rows), *gradients.attention, &kept.workspace);
        kept.bias.backward(gradients.attention->bias, block.bias, kept.attention_in, grad_in,
                           gradients.bias);
      });
      rms_norm_backward(kept.x, block.attention_norm, grad_in, grad, gradients.attention_norm);
    }
    for (Index r = 0; r < windows.rows; ++r) {
      for (Index i = 0; i < windows.length; ++i) {
        gradients_.embedding.row(windows.row(r)[i]) += grad.row(r * windows.length + i);
      }
    }
    if (addition_ == Addition::Learned) {
      auto& table = gradients_.positions;
      learned().add_gradient(tokens(std::as_const(grad), windows.rows), positions_of(windows),
                             posenc::MatrixView<T>{table.data(), table.rows(), table.cols()});
    }
  }

  Shape shape_;
  Rotary rotary_;
  Addition addition_;
  std::deque<Activations> activations_;  // biases of blocks may refer to it
  Weights<Attention, posenc::Linear<T>> weights_;
  Weights<AttentionGradients, posenc::LinearParameters<T>> gradients_;
  Matrix<T> x_, out_, final_, logits_, grad_, grad_in_, grad_hidden_;  // reused memory
};

}  // namespace study
