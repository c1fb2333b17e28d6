// SPDX-License-Identifier: MIT
// User program that links posenc::compiled. Nothing in it differs from a program that does not.
#include <posenc/attention/attention.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/interop/hf_config.hpp>
#include <posenc/rotary/rope.hpp>

#include <array>
#include <cmath>
#include <iostream>
#include <string_view>

#if !POSENC_COMPILED
#error "posenc::compiled must define POSENC_COMPILED"
#endif

using posenc::Index;

int main() {
  constexpr Index tokens = 2, heads = 2, dim = 4;
  std::array<float, tokens * heads * dim> q{}, v{}, out{};
  q.fill(1);
  v.fill(2);
  const auto view = [](auto& x) {
    return posenc::HeadsView<float>{x.data(), 1, tokens, heads, dim};
  };
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
  rope.rotate(view(q), posenc::Positions::range(3, tokens));
  const posenc::Alibi alibi({.heads = heads, .form = posenc::AlibiForm::Causal});
  posenc::attention(view(q), view(q), view(v), view(out), {.causal = posenc::Causal::BottomRight},
                    alibi);
  for (const float x : out) {
    if (std::abs(x - 2) > 1e-6F) return 1;
  }
  constexpr std::string_view config =
      R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32,
          "num_hidden_layers": 2, "max_position_embeddings": 4096, "rope_theta": 10000.0})";
  std::cout << posenc::rotary(posenc::read_hf_config(config)).head_dim << '\n';
  return posenc::rotary(posenc::read_hf_config(config)).head_dim == 128 ? 0 : 1;
}
