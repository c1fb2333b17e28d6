// SPDX-License-Identifier: MIT
// The frequencies of RoFormer.
#include "frequency/rejections.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/frequency/unscaled.hpp>

#include <vector>

namespace unscaled_test {

using posenc::Unscaled;
using namespace rejections;  // NOLINT: every check of a rejection

TEST_CASE("Unscaled: rejects bad settings", "[rules]") {
  check_shared_fields(Unscaled{.rotary_dim = 8, .base = 10000}, 2);
  CHECK(support::message_of<posenc::ConfigError>([] {
          frequencies(Unscaled{.rotary_dim = (1 << 24) + 2, .base = 10000});
        }) == "posenc::Unscaled: rotary_dim must not exceed 2^24 but is 16777218");
}

TEST_CASE("Unscaled: powers of the base by hand", "[rules]") {
  using Values = std::vector<double>;
  const auto ours = frequencies(Unscaled{.rotary_dim = 8, .base = 16});
  CHECK(ours.inv_freq() == Values{1, 0.5, 0.25, 0.125});
  CHECK(ours.attention_factor() == 1);
  CHECK(ours.softmax_scale_multiplier() == 1);
  CHECK(frequencies(Unscaled{.rotary_dim = 4, .base = 10000}).inv_freq() == Values{1, 0.01});
  // Half the channels with the same base have every second frequency.
  CHECK(frequencies(Unscaled{.rotary_dim = 4, .base = 16}).inv_freq() == Values{1, 0.25});
}

}  // namespace unscaled_test
