// SPDX-License-Identifier: MIT
// Random inputs of every documented bound, against MPFR.
#include "accuracy/bound.hpp"
#include "accuracy/survey.hpp"

namespace accuracy {

std::vector<Histogram> survey_bounds(const Extent& extent) {
  std::vector<Histogram> all;
  for (const Bound& bound : all_bounds()) {
    const bool in_ulp = bound.ulps > 0;
    char promise[40] = "documented formula";
    if (in_ulp) std::snprintf(promise, sizeof(promise), "%g ulp", bound.ulps);
    Histogram errors(bound.name, in_ulp ? "ulp" : "bound", promise);
    support::Random random(extent.seed);
    for (long n = 0; n < extent.samples; ++n) {
      Point at;
      for (const Range& range : bound.ranges) at.push_back(draw(range, random));
      const double share = share_of(bound, at);
      errors.add(in_ulp ? share * bound.ulps : share, share, [&] {
        std::string text;
        for (const double x : at) text += (text.empty() ? "" : " ") + hexadecimal(x);
        return text;
      });
    }
    all.push_back(std::move(errors));
  }
  return all;
}

}  // namespace accuracy
