// SPDX-License-Identifier: MIT
#pragma once

#include "adam.hpp"
#include "model.hpp"
#include "text.hpp"

#include <memory>
#include <vector>

namespace study {

/// Trains and evaluates one model on several threads. The rows of a batch are distributed over a
/// fixed number of replicas. Each has its own gradient, and gradients are added in order, so the
/// number of threads changes no bit.
class Training {
 public:
  /// threads: at most `replicas` of them work
  Training(const ModelConfig& config, int threads);

  static constexpr Index replicas = 4;

  Index parameter_count() const { return models_[0]->parameter_count(); }
  TrainingState begin(std::uint64_t seed);

  /// Makes one step of Adam for a batch; returns its mean loss in nats.
  double step(const Windows& batch, double rate, TrainingState& state);

  /// Returns bits per byte.
  ///   Throws: posenc::PositionError if the method does not support such positions
  double evaluate(const Windows& windows, std::span<const float> parameters);

  Matrix<double> attention_by_distance(const Windows& windows, std::span<const float> parameters);

  /// Returns the useful floating-point operations of a training step, for that many texts of a
  /// length.
  double step_operations(Index rows, Index length) const;

  /// Returns the seconds of all threads in products and attention.
  Spent spent() const;

 private:
  ModelConfig config_;
  int threads_;
  std::vector<std::unique_ptr<LanguageModel<float>>> models_;
  std::vector<std::vector<float>> gradients_;
};

}  // namespace study
