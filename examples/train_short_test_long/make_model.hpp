// SPDX-License-Identifier: MIT
#pragma once

#include "../tour/numbers.hpp"
#include "biases.hpp"
#include "model.hpp"
#include "transformer.hpp"
#include <posenc/concepts.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/xpos.hpp>

#include <memory>
#include <stdexcept>
#include <utility>

// posenc types of each method. It is a header because the gradient check needs models of double,
// and has two parts because each compiles slowly.
namespace study {

/// Returns nullptr if the method is not among these.
template <class T>
std::unique_ptr<LanguageModel<T>> make_without_bias(const ModelConfig& config) {
  using posenc::NoRotation;
  using Rope = posenc::Rope<posenc::HalfRotate>;
  using XPos = posenc::XPos<posenc::HalfRotate>;
  const auto& [method, shape, given] = config;
  const posenc::Unscaled unscaled{.rotary_dim = shape.head_dim(), .base = 10000};
  const auto make = [&shape = shape]<class Rotary>(Rotary rotary, Addition addition) {
    return std::make_unique<Transformer<T, Rotary, NoBiasPart<T>>>(shape, std::move(rotary),
                                                                   addition);
  };
  if (method == "nope") return make(NoRotation(), Addition::Nothing);
  if (method == "sinusoidal") return make(NoRotation(), Addition::Sinusoidal);
  if (method == "learned") return make(NoRotation(), Addition::Learned);
  if (method == "rope") {
    return make(Rope(given ? *given : posenc::frequencies(unscaled)), Addition::Nothing);
  }
  if (method == "xpos") return make(XPos(unscaled, {.scale_base = 512}), Addition::Nothing);
  return nullptr;
}

template <class T>
std::unique_ptr<LanguageModel<T>> make_with_bias(const ModelConfig& config) {
  const auto& [method, shape, given] = config;
  const auto make = [&shape = shape]<class Bias>(std::in_place_type_t<Bias>) {
    return std::make_unique<Transformer<T, posenc::NoRotation, Bias>>(shape, posenc::NoRotation(),
                                                                      Addition::Nothing);
  };
  if (method == "alibi") return make(std::in_place_type<AlibiPart<T>>);
  if (method == "t5") return make(std::in_place_type<T5Part<T>>);
  if (method == "kerple") return make(std::in_place_type<KerplePart<T>>);
  if (method == "fire") return make(std::in_place_type<FirePart<T>>);
  if (method == "fox") return make(std::in_place_type<FoxPart<T>>);
  return nullptr;
}

// Defined in make_with_bias.cpp.
extern template std::unique_ptr<LanguageModel<float>> make_with_bias<float>(const ModelConfig&);

template <class T>
std::unique_ptr<LanguageModel<T>> make_model(const ModelConfig& config) {
  if (auto model = make_without_bias<T>(config)) return model;
  if (auto model = make_with_bias<T>(config)) return model;
  throw std::invalid_argument(tour::cat("there is no method ", config.method));
}

}  // namespace study
