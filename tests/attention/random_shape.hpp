// SPDX-License-Identifier: MIT
#pragma once

#include "attention_case.hpp"

#include <initializer_list>

namespace attention_test {

/// Returns one of the values.
template <class T>
T pick(support::Random& random, std::initializer_list<T> values) {
  return values.begin()[random.integer(0, static_cast<Index>(values.size()) - 1)];
}

inline Shape small_shape(support::Random& random) {
  const Index kv_heads = random.integer(1, 3);
  return {random.integer(1, 3),
          kv_heads * random.integer(1, 3),
          kv_heads,
          random.integer(0, 7),
          random.integer(0, 9),
          random.integer(1, 12),
          random.integer(1, 9)};
}

/// Returns a shape with lengths at the edges of tiles (128 keys), panels (32) and vectors (16).
inline Shape edge_shape(support::Random& random) {
  const Index kv_heads = random.integer(1, 2);
  const Index group = pick<Index>(random, {1, 2, 3, 4, 7});
  return {1,
          kv_heads * group,
          kv_heads,
          pick<Index>(random, {1, 2, 3, 5, 12, 13, 24, 40}),
          pick<Index>(random, {1, 15, 16, 17, 31, 32, 33, 127, 128, 129, 255, 256, 257, 300}),
          pick<Index>(random, {1, 7, 8, 16, 31, 64, 80, 128}),
          pick<Index>(random, {1, 4, 15, 16, 17, 33, 64, 80, 100})};
}

/// Returns a shape of few keys and many heads, whose number may have a divisor in common with a
/// vector's width.
inline Shape many_heads_shape(support::Random& random) {
  const Index kv_heads = pick<Index>(random, {3, 4, 8, 12, 16, 17, 20, 32});
  return {random.integer(1, 2), kv_heads * random.integer(1, 2), kv_heads,
          random.integer(1, 3), random.integer(0, 10),           random.integer(1, 40),
          random.integer(1, 40)};
}

/// Returns a shape of one query whose heads have separate keys, more than a few.
inline Shape single_rows_shape(support::Random& random) {
  const Index heads = pick<Index>(random, {8, 12, 16, 24, 32, 40});
  return {random.integer(1, 2),
          heads,
          heads,
          1,
          pick<Index>(random, {9, 31, 33, 127, 130, 300}),
          pick<Index>(random, {5, 16, 31, 64, 128}),
          pick<Index>(random, {5, 16, 31, 64, 128})};
}

}  // namespace attention_test
