// SPDX-License-Identifier: MIT
#pragma once

#include "../support/limits.hpp"
#include <posenc/tensor/eigen.hpp>

// Baselines: x += P as written without posenc. P [seq, dim] is the same for all batch rows.
namespace bench {

using Embeddings = Eigen::Tensor<float, 3, Eigen::RowMajor>;  // [batch, seq, dim]

inline void plain_add(Embeddings& x, const float* p) {
  float* data = opaque(x.data());
  const float* table = opaque(p);
  const Index size = x.dimension(1) * x.dimension(2);
  for (Index b = 0; b < x.dimension(0); ++b, data += size) {
    for (Index i = 0; i < size; ++i) data[i] += table[i];
  }
}

inline void eigen_add(Embeddings& x, const float* p) {
  const Eigen::TensorMap<const Embeddings> table(p, 1, x.dimension(1), x.dimension(2));
  x += table.broadcast(Eigen::array<Index, 3>{x.dimension(0), 1, 1});
}

}  // namespace bench
