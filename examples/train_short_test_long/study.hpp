// SPDX-License-Identifier: MIT
#pragma once

#include "layers.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "scalings.hpp"
#include "text.hpp"
#include "training.hpp"

#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace study {

/// Evaluation of a model at one length.
struct Score {
  std::string method;    ///< one of methods()
  std::string scaling;   ///< of RoPE's frequencies; empty: as trained
  bool further = false;  ///< trained further with that scaling
  Index seed = 0, length = 0;
  std::optional<double> bits = std::nullopt;  ///< per byte; none if unsupported
};

/// Training speed of a method.
struct Speed {
  double tokens = 0, seconds = 0, operations = 0;
  Spent spent = {};  ///< seconds of all threads
};

struct Results {
  double unigram_bits = 0;
  double peak = 0;  ///< peak multiply-adds of all threads, operations per second
  std::vector<Score> scores = {};
  std::map<std::string, Speed> speeds = {};
  std::map<std::string, Matrix<double>> attention = {};  ///< by distance, of the first seed
  std::string refusal = {};                              ///< error message of the learned table
};

/// Thrown if training was stopped; it can be resumed.
struct Interrupted : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Trains and evaluates all models of the options.
class Study {
 public:
  /// stop: request to stop; the state is saved
  Study(const Options& options, const Text& text, Progress& progress, const std::atomic<bool>& stop)
      : options_(options), text_(text), progress_(progress), stop_(stop) {}

  /// Runs the study.
  ///   Throws: Interrupted, tour::FileError
  Results run();

  /// Returns the bytes that run() trains on, repetitions included.
  static double all_bytes(const Options& options);

 private:
  /// Training of a model: the name of its checkpoint, and its initial parameters.
  struct Job {
    std::string name;
    ModelConfig model;
    Index seed = 0, steps = 0, batch = 0, length = 0;
    double rate = 0;
    const std::vector<float>* begin = nullptr;
  };

  TrainingState train(const Job& job);
  void ask(Score score, const TrainingState& state,
           const std::function<std::optional<posenc::Frequencies>(Index)>& frequencies);
  void ask_rescaled(Index seed, const TrainingState& state);
  void see_attention(const std::string& method, const TrainingState& state);

  ModelConfig config_of(const std::string& method,
                        std::optional<posenc::Frequencies> frequencies = std::nullopt) const {
    return {method, options_.budget.shape, std::move(frequencies)};
  }
  Windows held_out(Index length) const {
    return held_out_windows(text_, options_.budget.held_out_bytes, options_.budget.longest(),
                            length);
  }

  const Options& options_;
  const Text& text_;
  Progress& progress_;
  const std::atomic<bool>& stop_;
  Index steps_done_ = 0;
  Results results_;
};

}  // namespace study
