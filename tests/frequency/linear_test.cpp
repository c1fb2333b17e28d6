// SPDX-License-Identifier: MIT
// Position interpolation.
#include "frequency/rejections.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/unscaled.hpp>

#include <cstddef>

namespace linear_test {

using posenc::frequencies;
using posenc::LinearScaling;
using posenc::Unscaled;
using namespace rejections;  // NOLINT: every check of a rejection

TEST_CASE("LinearScaling: divides every frequency", "[rules]") {
  const auto unscaled = frequencies(Unscaled{.rotary_dim = 64, .base = 10000}).inv_freq();
  const auto halved =
      frequencies(LinearScaling{.rotary_dim = 64, .base = 10000, .factor = 2}).inv_freq();
  for (std::size_t i = 0; i < unscaled.size(); ++i) CHECK(halved[i] == unscaled[i] / 2);
}

TEST_CASE("LinearScaling: rejects bad settings", "[rules]") {
  const LinearScaling rule{.rotary_dim = 8, .base = 10000, .factor = 2};
  check_shared_fields(rule, 2);
  check_factor(rule);
}

}  // namespace linear_test
