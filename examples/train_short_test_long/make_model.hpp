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

// Which posenc types a method is made of. A header of its own, as the check of the gradients wants models of double.
namespace study {

template <class T>
std::unique_ptr<LanguageModel<T>> make_model(const ModelConfig& config) {
  using posenc::NoRotation;
  using Rope = posenc::Rope<posenc::HalfRotate>;
  using XPos = posenc::XPos<posenc::HalfRotate>;
  const auto& [method, shape, given] = config;
  const posenc::Unscaled unscaled{.rotary_dim = shape.head_dim(), .base = 10000};
  const auto make = [&shape = shape]<class Rotary, class Bias>(Rotary rotary, const Bias*,
                                                               Addition addition) {
    return std::make_unique<Transformer<T, Rotary, Bias>>(shape, std::move(rotary), addition);
  };
  const auto biased = [&]<class Bias>(const Bias* bias) {
    return make(NoRotation(), bias, Addition::Nothing);
  };
  const NoBiasPart<T>* const no_bias = nullptr;
  if (method == "nope") return biased(no_bias);
  if (method == "sinusoidal") return make(NoRotation(), no_bias, Addition::Sinusoidal);
  if (method == "learned") return make(NoRotation(), no_bias, Addition::Learned);
  if (method == "rope") {
    return make(Rope(given ? *given : posenc::frequencies(unscaled)), no_bias, Addition::Nothing);
  }
  if (method == "xpos") {
    return make(XPos(unscaled, {.scale_base = 512}), no_bias, Addition::Nothing);
  }
  if (method == "alibi") return biased(static_cast<const AlibiPart<T>*>(nullptr));
  if (method == "t5") return biased(static_cast<const T5Part<T>*>(nullptr));
  if (method == "kerple") return biased(static_cast<const KerplePart<T>*>(nullptr));
  if (method == "fox") return biased(static_cast<const FoxPart<T>*>(nullptr));
  if (method == "fire") return biased(static_cast<const FirePart<T>*>(nullptr));
  throw std::invalid_argument(tour::cat("there is no method ", method));
}

}  // namespace study
