// SPDX-License-Identifier: MIT
#pragma once

#include "adam.hpp"
#include "model.hpp"
#include "text.hpp"

#include <memory>
#include <vector>

namespace study {

/// Trains and asks one model on several threads. The rows of a batch are shared out over a fixed number of
/// replicas, each with a gradient of its own, which are added in their order: how many threads
/// there are changes no bit.
class Training {
 public:
  /// threads: at most `replicas` of them work
  Training(const ModelConfig& config, int threads);

  static constexpr Index replicas = 4;

  Index parameter_count() const { return models_[0]->parameter_count(); }
  TrainingState begin(std::uint64_t seed);

  /// One step of Adam over a batch; gives its mean loss in nats.
  double step(const Windows& batch, double rate, TrainingState& state);

  /// Bits per byte.
  ///   Throws: posenc::PositionError where the method has no such positions
  double evaluate(const Windows& windows, std::span<const float> parameters);

  Matrix<double> attention_by_distance(const Windows& windows, std::span<const float> parameters);

  /// Useful floating point operations of a training step over so many texts of a length.
  double step_operations(Index rows, Index length) const;

  /// Seconds of all threads in products and attention.
  Spent spent() const;

 private:
  ModelConfig config_;
  int threads_;
  std::vector<std::unique_ptr<LanguageModel<float>>> models_;
  std::vector<std::vector<float>> gradients_;
};

}  // namespace study
