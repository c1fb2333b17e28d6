// SPDX-License-Identifier: MIT
// The frequencies of RoFormer.
#include "frequency/rejections.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/unscaled.hpp>

namespace unscaled_test {

using posenc::Unscaled;
using namespace rejections;  // NOLINT: every check of a rejection

TEST_CASE("Unscaled refuses bad settings", "[rules]") {
  check_shared_fields(Unscaled{.rotary_dim = 8, .base = 10000}, 2);
}

}  // namespace unscaled_test
