// SPDX-License-Identifier: MIT
#include "training.hpp"

#include <Eigen/Core>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <exception>
#include <functional>
#include <numbers>
#include <thread>

namespace study {
namespace {

/// Calls work(0) .. work(count - 1), each on one of the threads.
///   Throws: the exception of the first call that throws
void run(int threads, Index count, const std::function<void(Index)>& work) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  std::atomic<Index> next = 0;
  const auto take = [&] {
    for (Index n = next++; n < count; n = next++) {
      try {
        work(n);
      } catch (...) {
        errors[static_cast<std::size_t>(n)] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> others;
  for (int n = 1; n < threads; ++n) others.emplace_back(take);
  take();
  for (std::thread& thread : others) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// Returns rows first .. first + count - 1.
Windows rows_of(const Windows& windows, Index first, Index count) {
  const auto width = windows.length + 1;
  const auto begin = windows.bytes.begin() + first * width;
  return {count, windows.length, {begin, begin + count * width}};
}

}  // namespace

Training::Training(const ModelConfig& config, int threads) : config_(config), threads_(threads) {
  for (Index n = 0; n < replicas; ++n) models_.push_back(make_model<float>(config));
  gradients_.resize(models_.size(),
                    std::vector<float>(static_cast<std::size_t>(parameter_count())));
}

TrainingState Training::begin(std::uint64_t seed) {
  TrainingState state;
  state.parameters.resize(static_cast<std::size_t>(parameter_count()));
  models_[0]->initialise(seed, state.parameters);
  state.mean = state.variance = std::vector<float>(state.parameters.size());
  return state;
}

// excerpt: bits_by_length 1
double Training::step(const Windows& batch, double rate, TrainingState& state) {
  const double bytes = static_cast<double>(batch.rows * batch.length);
  const Index parts = std::min(replicas, batch.rows);
  std::vector<double> nats(static_cast<std::size_t>(parts));
  run(threads_, parts, [&](Index n) {
    const auto at = static_cast<std::size_t>(n);
    const Index first = batch.rows * n / parts, end = batch.rows * (n + 1) / parts;
    models_[at]->load(state.parameters);
    nats[at] = models_[at]->loss_and_gradient(rows_of(batch, first, end - first),
                                              static_cast<float>(1 / bytes), gradients_[at]);
  });
  double loss = nats[0];
  const auto count = static_cast<Index>(gradients_[0].size());
  Eigen::Map<Eigen::ArrayXf> sum(gradients_[0].data(), count);
  for (std::size_t n = 1; n < nats.size(); ++n) {
    sum += Eigen::Map<const Eigen::ArrayXf>(gradients_[n].data(), count);
    loss += nats[n];
  }
  adam(rate, gradients_[0], state);
  models_[0]->constrain(state.parameters);
  return loss / bytes;
}
// end of excerpt

// excerpt: bits_by_length 2
double Training::evaluate(const Windows& windows, std::span<const float> parameters) {
  // Calls do not depend on the number of threads, because the last bits of a product may depend on
  // its rows.
  const Index together = std::max(Index{1}, 512 / windows.length);
  const Index calls = (windows.rows + together - 1) / together;
  std::vector<double> nats(static_cast<std::size_t>(calls));
  run(threads_, std::min(replicas, calls), [&](Index n) {
    LanguageModel<float>& model = *models_[static_cast<std::size_t>(n)];
    model.load(parameters);
    for (Index call = n; call < calls; call += replicas) {
      const Index first = call * together, count = std::min(together, windows.rows - first);
      nats[static_cast<std::size_t>(call)] = model.loss(rows_of(windows, first, count));
    }
  });
  double sum = 0;
  for (const double value : nats) sum += value;
  return sum / static_cast<double>(windows.rows * windows.length) / std::numbers::ln2;
}
// end of excerpt

Matrix<double> Training::attention_by_distance(const Windows& windows,
                                               std::span<const float> parameters) {
  models_[0]->load(parameters);
  return models_[0]->attention_by_distance(windows);
}

double Training::step_operations(Index rows, Index length) const {
  const double tokens = static_cast<double>(rows * length);
  const double pairs = tokens * static_cast<double>(length + 1) / 2;
  // A product and its two gradients; attention's two products and the five of its backward pass.
  return 6 * tokens * static_cast<double>(models_[0]->product_parameters()) +
         14 * pairs * static_cast<double>(config_.shape.layers * config_.shape.width);
}

Spent Training::spent() const {
  Spent sum;
  for (const auto& model : models_) {
    sum.products += model->spent.products;
    sum.attention += model->spent.attention;
  }
  return sum;
}

}  // namespace study
