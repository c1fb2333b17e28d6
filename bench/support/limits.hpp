// SPDX-License-Identifier: MIT
#pragma once

#include "comparison.hpp"

#include <Eigen/Core>

#include <cstring>

// Passes that do nothing but move the bytes that a case has to move: what no encoding can beat.
namespace bench {

constexpr float unit = 1;  // a factor that leaves x as it is

// Eigen's arrays, because they use the widest vectors of the flags with every compiler: g++ makes
// 256-bit loops for AVX-512, which also wait for the front end.

/// x *= c.
inline void scale(float* x, Index count) {
  Eigen::Map<Eigen::ArrayXf>(opaque(x), count) *= *opaque(&unit);
}

/// x[r][0 .. width) *= c for every row: rows whose other channels stay where they are.
template <Index width>
void scale_rows(float* x, Index rows, Index stride) {
  const float factor = *opaque(&unit);
  float* data = opaque(x);
  for (Index r = 0; r < rows; ++r, data += stride) {
    Eigen::Map<Eigen::Array<float, width, 1>>{data} *= factor;
  }
}

/// x += t, for cases that read a table as large as x.
inline void add_table(float* x, const float* t, Index count) {
  Eigen::Map<Eigen::ArrayXf>(opaque(x), count) +=
      Eigen::Map<const Eigen::ArrayXf>(opaque(t), count);
}

/// x = c, for cases that only write.
inline void fill(float* x, Index count) {
  Eigen::Map<Eigen::ArrayXf>(opaque(x), count).setConstant(*opaque(&unit));
}

inline void copy(float* to, const float* from, Index count) {
  std::memcpy(opaque(to), opaque(from), static_cast<std::size_t>(count) * sizeof(float));
}

}  // namespace bench
