// SPDX-License-Identifier: MIT
// User program that constructs the rope and the scale of scores from a model's config.json, without
// Eigen.
#include <posenc/interop/hf_config.hpp>
#include <posenc/interop/presets.hpp>

#include <cmath>
#include <iostream>

#if defined(EIGEN_WORLD_VERSION)
#error "posenc::core must not bring Eigen"
#endif

int main() {
  const auto model = posenc::read_hf_config(R"({"model_type": "llama", "hidden_size": 4096,
      "num_attention_heads": 32, "num_hidden_layers": 32, "rope_theta": 500000.0})");
  const posenc::AnyRope rope = posenc::rope(model);
  if (rope.rotary_dim() != 128 || posenc::softmax_scale(model) != 1 / std::sqrt(128.0)) {
    std::cerr << "the settings are others than the file's\n";
    return 1;
  }
  std::cout << "config.json, and " << posenc::presets::all().size() << " presets\n";
}
