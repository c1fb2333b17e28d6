// SPDX-License-Identifier: MIT
#include "share.hpp"

namespace ring {

Share::Share(const Rope& rope, const Layer& layer, const posenc::Positions& positions)
    : queries(1, positions.count(), layer.heads, layer.head_dim),
      grad_out(queries.dimensions()),
      kv(layer, positions.count()),
      outputs(layer, positions.count()),
      gradients(layer, positions.count()) {
  fill_queries(rope, positions, posenc::bshd(queries));
  fill_keys_and_values(rope, positions, kv);
  fill_output_gradients(positions, posenc::bshd(grad_out));
}

}  // namespace ring
