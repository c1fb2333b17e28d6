// SPDX-License-Identifier: MIT
// Memory of known size, as in a user's program: the compiler knows extents and bounds, and warns
// about them.
#pragma once

#include <posenc/tensor/view.hpp>

#include <cstddef>
#include <vector>

namespace warnings {

using posenc::Index;

/// Dense tensor [1, seq, heads, dim] of ones, with views as heads, as embeddings or as a matrix.
template <class T>
struct Tokens {
  Index seq, heads, dim;
  std::vector<T> values =
      std::vector<T>(static_cast<std::size_t>(seq * heads * dim), static_cast<T>(1));

  posenc::HeadsView<T> view() { return {values.data(), 1, seq, heads, dim}; }
  posenc::EmbeddingsView<T> rows() { return {values.data(), 1, seq, heads * dim}; }
  posenc::MatrixView<T> matrix() { return {values.data(), seq, heads * dim}; }
};

template <class T>
Tokens<T> ones(Index seq, Index heads, Index dim) {
  return {.seq = seq, .heads = heads, .dim = dim};
}

}  // namespace warnings
