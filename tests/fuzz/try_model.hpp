// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/interop/model_settings.hpp>
#include <posenc/interop/module_settings.hpp>

#include <algorithm>
#include <cstdlib>

namespace fuzz {

/// Reads a model and constructs what a user would construct from it. A ConfigError is a valid
/// result. Any other exception is a bug and ends the process.
template <class Read>
void try_model(const Read& read) {
  try {
    const posenc::ModelSettings model = read();
    for (const posenc::LayerRotary& layer : model.layers) {
      for (const posenc::Index length : {posenc::Index{0}, posenc::Index{1} << 40}) {
        const posenc::AnyRope made = rope(layer.rotary, length);
        if (made.rotary_offset() + made.rotary_dim() > layer.rotary.head_dim) std::abort();
      }
    }
    const posenc::Index last = (std::max)(model.layer_count, posenc::Index{1}) - 1;
    intermediate_size_of_layer(model, last);
    for (const posenc::Index layer : {posenc::Index{0}, last}) {
      try {
        (void)posenc::module_settings<float>(model, layer, posenc::Index{1} << 40);
      } catch (const posenc::ConfigError&) {  // a layer that no module expresses
      }
    }
    if (model.vision && model.vision->rotary) rope(*model.vision);
  } catch (const posenc::ConfigError&) {
  }
}

}  // namespace fuzz
