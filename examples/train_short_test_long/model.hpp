// SPDX-License-Identifier: MIT
#pragma once

#include "layers.hpp"
#include "text.hpp"
#include <posenc/frequency/frequencies.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace study {

/// Sizes that are the same for all methods.
struct Shape {
  Index layers = 2, width = 64, heads = 4;
  Index length = 64;  ///< of texts in training
  Index bytes = 256;  ///< vocabulary size

  Index head_dim() const { return width / heads; }
};

/// Model of one method. `frequencies` are for RoPE, which has its usual ones without them.
struct ModelConfig {
  std::string method;
  Shape shape;
  std::optional<posenc::Frequencies> frequencies = std::nullopt;
};

/// Times of a model.
struct Spent {
  double products = 0;   ///< seconds in linear layers outside of attention
  double attention = 0;  ///< seconds in the attention module with its projections
};

/// Byte-level language model. It is one replica: each thread has its own. Its parameters are a list
/// of numbers that the optimiser owns.
template <class T>
class LanguageModel {
 public:
  LanguageModel() = default;
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;
  virtual ~LanguageModel() = default;

  virtual Index parameter_count() const = 0;
  /// Returns the number of parameters in matrices that every token is multiplied with.
  virtual Index product_parameters() const = 0;
  virtual void initialise(std::uint64_t seed, std::span<T> parameters) = 0;
  /// Limits parameters to valid values, after a step of the optimiser.
  virtual void constrain(std::span<T> parameters) const = 0;
  virtual void load(std::span<const T> parameters) = 0;

  /// Returns the sum of -ln p over all next bytes.
  ///   Throws: posenc::PositionError if the method does not support such positions
  virtual double loss(const Windows& windows) = 0;
  /// Returns the loss and writes `scale` times its gradient to `gradient`.
  virtual double loss_and_gradient(const Windows& windows, T scale, std::span<T> gradient) = 0;

  /// Returns the weight that queries give to keys by distance in tokens, averaged over the queries
  /// that have such a key: [layers x heads, length].
  virtual Matrix<double> attention_by_distance(const Windows& windows) = 0;

  Spent spent;
};

/// Returns all methods, in the order of the report.
const std::vector<std::string>& methods();

/// Returns a model of a method.
///   Throws: std::invalid_argument if there is no such method
template <class T>
std::unique_ptr<LanguageModel<T>> make_model(const ModelConfig& config);

}  // namespace study
