// SPDX-License-Identifier: MIT
#pragma once

#include "reference/alibi.hpp"
#include "reference/fire.hpp"
#include "reference/kerple.hpp"
#include "reference/t5.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/bias/table_gradient.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace attention_test {

using posenc::Index;

/// Gradient of the parameters of a LearnedBias.
class LearnedBiasGradient {
 public:
  using Any = std::variant<std::vector<double>, posenc::TableGradient, posenc::KerpleGradient,
                           posenc::FireParameters>;

  explicit LearnedBiasGradient(Any gradient) : gradient_(std::move(gradient)) {}

  LearnedBiasGradient& operator+=(const LearnedBiasGradient& other) {
    std::visit(
        [&]<class Gradient>(Gradient& sum) {
          const auto& added = std::get<Gradient>(other.gradient_);
          if constexpr (requires { sum += added; }) {
            sum += added;
          } else {
            std::transform(sum.begin(), sum.end(), added.begin(), sum.begin(), std::plus());
          }
        },
        gradient_);
    return *this;
  }

  template <class Visit>
  void visit(const Visit& visit) {
    std::visit(visit, gradient_);
  }

  /// Returns all numbers, in the order of LearnedBias::parameters().
  std::vector<double> numbers() const {
    if (const auto* slopes = std::get_if<0>(&gradient_)) return *slopes;
    if (const auto* table = std::get_if<1>(&gradient_)) {
      const auto view = table->view();
      return {view.data, view.data + view.rows * view.cols};
    }
    std::vector<double> all;
    const auto append = [&all](const std::vector<double>& part) {
      all.insert(all.end(), part.begin(), part.end());
    };
    if (const auto* kerple = std::get_if<2>(&gradient_)) {
      append(kerple->r1);
      append(kerple->r2);
    } else {
      const auto& fire = std::get<3>(gradient_);
      all = {fire.c, fire.threshold};
      append(fire.hidden_weight);
      append(fire.hidden_bias);
      append(fire.output_weight);
      append(fire.output_bias);
    }
    return all;
  }

 private:
  Any gradient_;
};

/// Bias with learned parameters, in one type, so that attention_backward() is compiled once. It has
/// an independent implementation of its values as a function of its parameters.
class LearnedBias {
 public:
  enum Kind { Alibi, SymmetricAlibi, T5, Kerple, PowerKerple, Fire, kinds };

  LearnedBias(Kind kind, Index heads, support::Random& random) : kind_(kind), heads_(heads) {
    const auto draw = [&](Index count, double low, double high) {
      while (count-- > 0) parameters_.push_back(random.uniform(low, high));
    };
    switch (kind) {
      case T5:
        draw(buckets * heads, -2, 2);
        for (double& value : parameters_) value = static_cast<double>(static_cast<float>(value));
        table_.assign(parameters_.begin(), parameters_.end());
        break;
      case Kerple:
      case PowerKerple:
        draw(heads, 0.1, 1);
        draw(heads, 0.2, 0.9);
        break;
      case Fire:
        draw(1, 0.1, 1);
        draw(1, 2.1, 2.9);
        draw((2 + heads) * width + heads, -1, 1);
        break;
      default:
        draw(heads, 0.05, 0.5);
    }
  }

  /// Returns a bias of posenc that refers to these parameters.
  auto make() const {
    const auto part = [this](Index first, Index count) {
      const auto begin = parameters_.begin() + first;
      return std::vector<double>(begin, begin + count);
    };
    switch (kind_) {
      case T5:
        return Any(
            posenc::T5Bias<float>(posenc::MatrixView<const float>{table_.data(), buckets, heads_},
                                  {.buckets = buckets,
                                   .max_distance = reach,
                                   .direction = posenc::T5Direction::Bidirectional}));
      case Kerple:
      case PowerKerple:
        return Any(posenc::Kerple(
            {.form = kind_ == Kerple ? posenc::KerpleForm::Logarithmic : posenc::KerpleForm::Power,
             .r1 = part(0, heads_),
             .r2 = part(heads_, heads_)}));
      case Fire:
        return Any(posenc::Fire(fire(parameters_)));
      default:
        return Any(posenc::Alibi(parameters_, kind_ == Alibi ? posenc::AlibiForm::Causal
                                                             : posenc::AlibiForm::Symmetric));
    }
  }

  const std::vector<double>& parameters() const { return parameters_; }

  /// Returns the bias with parameters p, by the reference.
  double value(const std::vector<double>& p, Index head, double query, double key) const {
    const auto h = static_cast<std::size_t>(head), all = static_cast<std::size_t>(heads_);
    switch (kind_) {
      case T5:
        return p[static_cast<std::size_t>(
                     reference::t5_bucket(static_cast<Index>(key - query), true, buckets, reach)) *
                     all +
                 h];
      case Kerple:
      case PowerKerple:
        return reference::kerple_bias(kind_ == PowerKerple, p[h], p[all + h], query, key);
      case Fire:
        return reference::fire_bias(fire(p), 1e-6, h, query, key);
      default:
        return reference::alibi_bias(
            p[h], query, key,
            kind_ == Alibi ? reference::AlibiForm::Causal : reference::AlibiForm::Symmetric);
    }
  }

  /// Derivative of the bias by parameter n, as a central difference.
  class Slope {
   public:
    Slope(const LearnedBias& bias, std::size_t n)
        : bias_(bias), below_(bias.parameters_), above_(bias.parameters_) {
      below_[n] -= step;
      above_[n] += step;
    }
    double operator()(Index head, double query, double key) const {
      return (bias_.value(above_, head, query, key) - bias_.value(below_, head, query, key)) /
             (2 * step);
    }

   private:
    static constexpr double step = 0x1p-16;
    const LearnedBias& bias_;
    std::vector<double> below_, above_;
  };

  /// Bias of any kind, as posenc accepts it.
  class Any {
   public:
    using Variant =
        std::variant<posenc::Alibi, posenc::T5Bias<float>, posenc::Kerple, posenc::Fire>;

    explicit Any(Variant bias) : bias_(std::move(bias)) {}

    template <std::floating_point Real>
    void add(Index head, std::span<const double> query_positions,
             std::span<const double> key_positions, posenc::MatrixView<Real> tile) const {
      std::visit([&](const auto& bias) { bias.add(head, query_positions, key_positions, tile); },
                 bias_);
    }
    template <std::floating_point Real>
    void add_gradient(Index head, std::span<const double> query_positions,
                      std::span<const double> key_positions, posenc::MatrixView<const Real> grad,
                      LearnedBiasGradient& gradient) const {
      std::visit(
          [&](const auto& bias) {
            using Gradient = decltype(bias.zero_gradient());
            gradient.visit([&]<class Other>(Other& own) {
              if constexpr (std::same_as<Other, Gradient>) {
                bias.add_gradient(head, query_positions, key_positions, grad, own);
              }
            });
          },
          bias_);
    }
    LearnedBiasGradient zero_gradient() const {
      return std::visit([](const auto& bias) { return LearnedBiasGradient(bias.zero_gradient()); },
                        bias_);
    }

   private:
    Variant bias_;
  };

 private:
  static constexpr Index buckets = 16, reach = 40, width = 3;

  posenc::FireParameters fire(const std::vector<double>& p) const {
    posenc::FireParameters all{.c = p[0], .threshold = p[1]};
    auto next = p.begin() + 2;
    const auto take = [&](std::vector<double>& part, Index count) {
      part.assign(next, next + count);
      next += count;
    };
    take(all.hidden_weight, width);
    take(all.hidden_bias, width);
    take(all.output_weight, heads_ * width);
    take(all.output_bias, heads_);
    return all;
  }

  Kind kind_;
  Index heads_;
  std::vector<double> parameters_;
  std::vector<float> table_;
};

}  // namespace attention_test
