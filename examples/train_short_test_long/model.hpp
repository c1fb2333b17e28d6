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

/// What is the same for all methods.
struct Shape {
  Index layers = 2, width = 64, heads = 4;
  Index length = 64;  ///< trained at
  Index bytes = 256;  ///< the vocabulary

  Index head_dim() const { return width / heads; }
};

/// A model of one method; `frequencies` are for RoPE, which has its usual ones without them.
struct ModelConfig {
  std::string method;
  Shape shape;
  std::optional<posenc::Frequencies> frequencies = std::nullopt;
};

/// Where a model's time went.
struct Spent {
  double products = 0;   ///< seconds in linear layers outside of attention
  double attention = 0;  ///< in the attention module, whose four projections are among it
};

/// A byte for byte language model, and one replica of it: a thread has its own. Its parameters are a list of
/// numbers that the optimiser owns.
template <class T>
class LanguageModel {
 public:
  LanguageModel() = default;
  LanguageModel(const LanguageModel&) = delete;
  LanguageModel& operator=(const LanguageModel&) = delete;
  virtual ~LanguageModel() = default;

  virtual Index parameter_count() const = 0;
  /// Of these, those of matrices that every token is multiplied by.
  virtual Index product_parameters() const = 0;
  virtual void initialise(std::uint64_t seed, std::span<T> parameters) = 0;
  /// Keeps parameters where they have a meaning, after a step of the optimiser.
  virtual void constrain(std::span<T> parameters) const = 0;
  virtual void load(std::span<const T> parameters) = 0;

  /// The sum of -ln p over all bytes that follow.
  ///   Throws: posenc::PositionError where the method has no such positions
  virtual double loss(const Windows& windows) = 0;
  /// The same; gradient <- `scale` times that of the sum.
  virtual double loss_and_gradient(const Windows& windows, T scale, std::span<T> gradient) = 0;

  /// How much weight queries give to the key so many tokens before them, on average over those that have
  /// such a key: [layers x heads, length].
  virtual Matrix<double> attention_by_distance(const Windows& windows) = 0;

  Spent spent;
};

/// All methods, in the order of the report.
const std::vector<std::string>& methods();

///   Throws: std::invalid_argument where there is no such method
template <class T>
std::unique_ptr<LanguageModel<T>> make_model(const ModelConfig& config);

}  // namespace study
