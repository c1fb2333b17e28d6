// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

#include <algorithm>

namespace support {

/// Device that splits work into parts of a given size, last part first. Eigen would choose the
/// split itself.
struct Cutter {
  struct Cost {
    double bytes_loaded, bytes_stored, cycles;
  };
  posenc::Index part;

  int numThreads() const { return 5; }
  template <class Work>
  void parallelFor(posenc::Index count, const Cost&, const Work& work) const {
    for (posenc::Index end = count; end > 0; end -= (std::min)(part, end)) {
      work((std::max)(posenc::Index{0}, end - part), end);
    }
  }
};

}  // namespace support
