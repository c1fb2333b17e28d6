// SPDX-License-Identifier: MIT
// Two ramps over the pair index.
#include "frequency/presets.hpp"
#include "frequency/ramps.hpp"
#include "frequency/rejections.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/index_ramp.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/two_ramp_ntk.hpp>

#include <cmath>
#include <cstddef>

namespace two_ramp_ntk_test {

using posenc::frequencies;
using posenc::TwoRampNtkScaling;
using namespace rejections;  // NOLINT: every check of a rejection
using ramps::linear;
using ramps::unscaled;

TEST_CASE("TwoRampNtkScaling: kept, then NTK, then interpolated", "[ramps]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    const auto index = [base = base, dim = dim](double rotations) {
      return static_cast<double>(
          posenc::detail::pair_index_at_rotations(dim, base, 2048, rotations));
    };
    const auto ours = frequencies(posenc::TwoRampNtkScaling{
        .rotary_dim = dim, .base = base, .factor = 8, .original_max_position = 2048});
    const auto kept = unscaled(dim, base), divided = linear(dim, base, 8),
               ntk = frequencies(posenc::NtkScaling{.rotary_dim = dim, .base = base, .factor = 8});
    for (std::size_t i = 0; i < posenc::detail::exact_inv_freq(ours).size(); ++i) {
      CAPTURE(i);
      const auto pair = static_cast<double>(i);
      const auto w = posenc::detail::exact_inv_freq(ours)[i];
      if (pair <= std::floor(index(16))) CHECK(w == posenc::detail::exact_inv_freq(kept)[i]);
      if (pair >= std::ceil(index(2)) && pair <= std::floor(index(1.25))) {
        CHECK(w == posenc::detail::exact_inv_freq(ntk)[i]);
      }
      if (pair >= std::ceil(index(0.75))) CHECK(w == posenc::detail::exact_inv_freq(divided)[i]);
      CHECK(w <= posenc::detail::exact_inv_freq(kept)[i]);
      CHECK(w >= posenc::detail::exact_inv_freq(divided)[i]);
    }
  }
}

TEST_CASE("TwoRampNtkScaling: rejects bad settings", "[rules]") {
  const TwoRampNtkScaling rule{
      .rotary_dim = 8, .base = 10000, .factor = 2, .original_max_position = 2048};
  check_shared_fields(rule, 4);
  check_factor(rule);
  check_length(rule);
}

}  // namespace two_ramp_ntk_test
