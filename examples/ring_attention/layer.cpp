// SPDX-License-Identifier: MIT
#include "layer.hpp"

namespace ring {
namespace {

/// Fills x with numbers in [-scale, scale), from separate streams for queries, keys, values and
/// gradients.
void fill(std::uint64_t stream, float scale, const posenc::Positions& positions,
          posenc::HeadsView<float> x) {
  for (Index n = 0; n < x.seq; ++n) {
    const auto token = mix(stream + 4 * static_cast<std::uint64_t>(positions.at(0, n)));
    for (Index h = 0; h < x.heads; ++h) {
      for (Index d = 0; d < x.dim; ++d) {
        const auto bits = mix(token + static_cast<std::uint64_t>(h * x.dim + d)) >> 40;  // 24 bits
        x.row(0, n, h)[d] = scale * (static_cast<float>(bits) / 8388608.0F - 1.0F);
      }
    }
  }
}

}  // namespace

void fill_queries(const Rope& rope, const posenc::Positions& positions,
                  posenc::HeadsView<float> q) {
  fill(1, 2, positions, q);
  rope.rotate(q, positions);
}

void fill_keys_and_values(const Rope& rope, const posenc::Positions& positions, KeysAndValues& kv) {
  fill(2, 2, positions, kv.keys());
  fill(3, 1, positions, kv.values());
  rope.rotate(kv.keys(), positions);
}

void fill_output_gradients(const posenc::Positions& positions, posenc::HeadsView<float> grad_out) {
  fill(0, 1, positions, grad_out);
}

}  // namespace ring
