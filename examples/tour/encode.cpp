// SPDX-License-Identifier: MIT
#include "encode.hpp"

#include "random.hpp"

namespace tour {

Matrix random_table(Index rows, Index width, std::uint64_t seed, double deviation) {
  Random random(seed);
  Matrix table(rows, width);
  for (Index r = 0; r < rows; ++r) {
    for (Index c = 0; c < width; ++c) {
      table(r, c) = static_cast<float>(deviation * random.normal());
    }
  }
  return table;
}

}  // namespace tour
