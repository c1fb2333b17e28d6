// SPDX-License-Identifier: MIT
#include "measure.hpp"

#include "share.hpp"

#include <algorithm>

namespace ring {

double measure_rate(Pass pass, const Ring& ring, const Rope& rope, Index tokens) {
  const Stripes stripes{.tokens = (std::min)(tokens, Index{2048}), .ranks = 1};
  Share share(rope, ring.layer, stripes.positions(0));
  share.attend_alone(ring.threads);
  Seconds taken{};
  int times = 0;
  for (; times < 3 || taken < Seconds(0.3); ++times) {
    const auto begin = Clock::now();
    if (pass == Pass::Forward) {
      share.attend_alone(ring.threads);
    } else {
      share.go_back_alone(ring.threads);
    }
    taken += Clock::now() - begin;
  }
  return static_cast<double>(times * stripes.pairs(0, 0) * ring.layer.pair_operations(pass)) /
         taken.count();
}

Seconds measure_empty_step(Pass pass, const Ring& ring, const Rope& rope) {
  Ring small = ring;
  small.stripes.tokens = ring.ranks();
  Share share(rope, ring.layer, small.stripes.positions(ring.rank()));
  share.attend(small);
  Seconds shortest = Seconds::max();
  for (int time = 0; time < 10; ++time) {
    const auto begin = Clock::now();
    if (pass == Pass::Forward) {
      share.attend(small);
    } else {
      share.go_back(small);
    }
    shortest = (std::min)(shortest, Seconds(Clock::now() - begin));
  }
  return shortest / ring.ranks();
}

}  // namespace ring
