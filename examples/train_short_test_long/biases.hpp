// SPDX-License-Identifier: MIT
#pragma once

#include "../tour/random.hpp"
#include "layers.hpp"
#include "model.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/forget_gradient.hpp>
#include <posenc/bias/forgetting.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/concepts.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

// Score biases of the study. For each: the bias type of posenc, how a block's parameters define it,
// their initial values, and the destination of its gradient. Each layer has its own parameters.
namespace study {

/// Defaults of a part: no parameters.
template <class T>
struct NoParameters {
  /// True if the bias is a value computed from the parameters, so that it is recomputed when they
  /// change.
  static constexpr bool is_made_anew = false;

  Index parameter_count() const { return 0; }
  void initialise(tour::Random&, std::span<T>) const {}
  static void constrain(std::span<T>) {}
  /// Called before attention to x, which has `sequences` texts.
  void see(std::span<const T> /*parameters*/, const Matrix<T>& /*x*/, Index /*sequences*/) {}
  /// Writes the gradient of the parameters and adds that of x to grad_x, given that of the bias.
  template <class Gradient>
  void backward(const Gradient&, std::span<const T> /*parameters*/, const Matrix<T>& /*x*/,
                Matrix<T>& /*grad_x*/, std::span<T> /*gradient*/) const {}
};

template <class T>
struct NoBiasPart : NoParameters<T> {
  using Type = posenc::NoBias;
  explicit NoBiasPart(const Shape&) {}
  Type make(std::span<const T>) const { return {}; }
};

/// ALiBi, whose slopes are fixed.
template <class T>
struct AlibiPart : NoParameters<T> {
  using Type = posenc::Alibi;
  explicit AlibiPart(const Shape& shape) : heads(shape.heads) {}
  Type make(std::span<const T>) const {
    return Type({.heads = heads, .form = posenc::AlibiForm::Causal});
  }
  Index heads;
};

/// Part with that many parameters.
template <class T>
struct Parameters : NoParameters<T> {
  static constexpr bool is_made_anew = true;
  explicit Parameters(Index number) : count(number) {}
  Index parameter_count() const { return count; }
  Index count;
};

/// T5's table [buckets, heads]. Here each layer has one; T5 has one for all.
template <class T>
struct T5Part : Parameters<T> {
  using Type = posenc::T5Bias<T>;
  static constexpr bool is_made_anew = false;  // a view of the table
  static constexpr Index buckets = 32;         // up to a distance of 128, as in T5

  explicit T5Part(const Shape& shape) : Parameters<T>(buckets * shape.heads), heads(shape.heads) {}
  void initialise(tour::Random& random, std::span<T> parameters) const {
    for (T& value : parameters) value = static_cast<T>(0.1 * random.normal());
  }
  Type make(std::span<const T> parameters) const {
    return Type(posenc::MatrixView<const T>{parameters.data(), buckets, heads},
                {.buckets = buckets, .direction = posenc::T5Direction::Causal});
  }
  template <class Gradient>
  void backward(const Gradient& of_table, std::span<const T>, const Matrix<T>&, Matrix<T>&,
                std::span<T> gradient) const {
    const auto view = of_table.view();
    std::transform(view.data, view.data + gradient.size(), gradient.begin(),
                   [](double value) { return static_cast<T>(value); });
  }
  Index heads;
};

/// KERPLE in its logarithmic form: r1 of all heads, then r2. Initial values and bounds are those of
/// the authors' code.
template <class T>
struct KerplePart : Parameters<T> {
  using Type = posenc::Kerple;

  explicit KerplePart(const Shape& shape)
      : Parameters<T>(2 * shape.heads), heads(static_cast<std::size_t>(shape.heads)) {}
  void initialise(tour::Random& random, std::span<T> parameters) const {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      parameters[i] = static_cast<T>((i < heads ? 2 : 1) * random.uniform());
    }
    constrain(parameters);
  }
  static void constrain(std::span<T> parameters) {
    for (T& value : parameters) value = std::max(value, T(0.01));
  }
  Type make(std::span<const T> parameters) const {
    const auto values = [](std::span<const T> part) {
      std::vector<double> result;
      // Uninitialised parameters are 0.
      for (const T value : part) result.push_back(value > 0 ? static_cast<double>(value) : 1);
      return result;
    };
    return Type({.form = posenc::KerpleForm::Logarithmic,
                 .r1 = values(parameters.first(heads)),
                 .r2 = values(parameters.subspan(heads))});
  }
  template <class Gradient>
  void backward(const Gradient& of_bias, std::span<const T>, const Matrix<T>&, Matrix<T>&,
                std::span<T> gradient) const {
    for (std::size_t h = 0; h < heads; ++h) {
      gradient[h] = static_cast<T>(of_bias.r1[h]);
      gradient[heads + h] = static_cast<T>(of_bias.r2[h]);
    }
  }
  std::size_t heads;
};

/// FIRE: c, the multiplier of the threshold, then the network, with torch's initial values.
template <class T>
struct FirePart : Parameters<T> {
  using Type = posenc::Fire;
  static constexpr std::size_t width = 32;  // as in the paper

  explicit FirePart(const Shape& shape)
      : Parameters<T>(2 + 2 * Index{width} + (Index{width} + 1) * shape.heads),
        heads(static_cast<std::size_t>(shape.heads)),
        threshold(static_cast<double>(shape.length) / 4) {}
  void initialise(tour::Random& random, std::span<T> parameters) const {
    parameters[0] = T(0.1);
    parameters[1] = T(1);
    for (std::size_t i = 2; i < parameters.size(); ++i) {
      const double limit = i < 2 + 2 * width ? 1 : 1 / std::sqrt(static_cast<double>(width));
      parameters[i] = static_cast<T>(limit * (2 * random.uniform() - 1));
    }
  }
  Type make(std::span<const T> parameters) const {
    posenc::FireParameters made;
    made.c = positive(parameters[0]);
    made.threshold = threshold * positive(parameters[1]);
    auto rest = parameters.subspan(2);
    for (const auto& [values, size] : lists(made)) {
      values->assign(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(size));
      rest = rest.subspan(size);
    }
    return Type(std::move(made));
  }
  void backward(posenc::FireParameters of_bias, std::span<const T> parameters, const Matrix<T>&,
                Matrix<T>&, std::span<T> gradient) const {
    gradient[0] = static_cast<T>(of_bias.c * sign(parameters[0]));
    gradient[1] = static_cast<T>(of_bias.threshold * threshold * sign(parameters[1]));
    auto rest = gradient.subspan(2);
    for (const auto& [values, size] : lists(of_bias)) {
      for (std::size_t i = 0; i < size; ++i) rest[i] = static_cast<T>((*values)[i]);
      rest = rest.subspan(size);
    }
  }

  std::size_t heads;
  double threshold;  ///< at the start

 private:
  /// Returns the magnitude, which must not be 0.
  static double positive(T value) { return std::max(std::abs(static_cast<double>(value)), 1e-6); }
  static double sign(T value) { return value < 0 ? -1 : 1; }

  struct List {
    std::vector<double>* values;
    std::size_t size;
  };
  std::vector<List> lists(posenc::FireParameters& p) const {
    return {{&p.hidden_weight, width},
            {&p.hidden_bias, width},
            {&p.output_weight, width * heads},
            {&p.output_bias, heads}};
  }
};

/// Forgetting attention: a gate per head and token, the logistic function of a linear layer of x:
/// its weight [heads, width], then its bias.
template <class T>
class FoxPart : public Parameters<T> {
 public:
  using Type = posenc::ForgettingBias;
  static constexpr bool is_made_anew = false;  // a view of the gates

  explicit FoxPart(const Shape& shape)
      : Parameters<T>(shape.heads * (shape.width + 1)),
        heads_(shape.heads),
        width_(shape.width),
        gates_(most_texts, shape.heads),
        texts_(static_cast<std::size_t>(most_texts)) {
    std::iota(texts_.begin(), texts_.end(), Index{0});
  }
  FoxPart(const FoxPart&) = delete;  // the bias refers to it
  FoxPart& operator=(const FoxPart&) = delete;

  void initialise(tour::Random& random, std::span<T> parameters) const {
    const double limit = std::sqrt(6.0 / static_cast<double>(heads_ + width_));
    const auto weights = static_cast<std::size_t>(heads_ * width_);
    for (T& value : parameters.first(weights)) {
      value = static_cast<T>(limit * (2 * random.uniform() - 1));
    }
    for (T& value : parameters.subspan(weights)) value = 0;
  }
  /// Returns a bias for all texts that there may be; missing texts have no gates.
  Type make(std::span<const T>) const { return Type(gates_, texts_); }

  void see(std::span<const T> parameters, const Matrix<T>& x, Index sequences) {
    sequences_ = sequences;
    logits_.noalias() = x * weight(parameters.data()).transpose();
    logits_.rowwise() += bias(parameters.data());
    for (const Index text : texts_) gates_.clear(text);
    gates_.append(std::span(texts_).first(static_cast<std::size_t>(sequences)),
                  tokens(std::as_const(logits_), sequences));
  }
  void backward(const posenc::ForgetGradient& of_bias, std::span<const T> parameters,
                const Matrix<T>& x, Matrix<T>& grad_x, std::span<T> gradient) const {
    Matrix<T> grad_logits(logits_.rows(), logits_.cols());
    of_bias.logits(0, tokens(logits_, sequences_), tokens(grad_logits, sequences_));
    weight(gradient.data()).noalias() = grad_logits.transpose() * x;
    bias(gradient.data()) = grad_logits.colwise().sum();
    grad_x.noalias() += grad_logits * weight(parameters.data());
  }

 private:
  static constexpr Index most_texts = 64;

  /// Returns the weight in the parameters, or in their gradient.
  template <class Number>
  auto weight(Number* values) const {
    using Weight = std::conditional_t<std::is_const_v<Number>, const Matrix<T>, Matrix<T>>;
    return Eigen::Map<Weight>(values, heads_, width_);
  }
  template <class Number>
  auto bias(Number* values) const {
    using Bias = std::conditional_t<std::is_const_v<Number>, const Row<T>, Row<T>>;
    return Eigen::Map<Bias>(values + heads_ * width_, heads_);
  }

  Index heads_, width_;
  posenc::ForgetGates gates_;
  std::vector<Index> texts_;
  Matrix<T> logits_;
  Index sequences_ = 0;
};

}  // namespace study
