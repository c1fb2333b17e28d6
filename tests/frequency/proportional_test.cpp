// SPDX-License-Identifier: MIT
// Tests ProportionalScaling, which rotates the first pairs alone.
#include "frequency/rejections.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/proportional.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace proportional_test {

using posenc::frequencies;
using posenc::Index;
using posenc::ProportionalScaling;
using posenc::detail::DoubleDouble;
using namespace rejections;  // NOLINT: every check of a rejection

TEST_CASE("ProportionalScaling: the first pairs rotate as in the whole head, the others do not",
          "[proportional]") {
  // Gemma-4's global layers.
  const auto ours = frequencies(
      ProportionalScaling{.head_dim = 512, .base = 1000000, .partial_rotary_factor = 0.25});
  const auto whole = frequencies(posenc::Unscaled{.rotary_dim = 512, .base = 1000000});
  REQUIRE(ours.rotary_dim() == 512);
  for (std::size_t i = 0; i < 256; ++i) {
    CAPTURE(i);
    CHECK(posenc::detail::exact_inv_freq(ours)[i] ==
          (i < 64 ? posenc::detail::exact_inv_freq(whole)[i] : DoubleDouble(0)));
  }
}

TEST_CASE("ProportionalScaling: the factor divides the frequencies that are left",
          "[proportional]") {
  const auto ours = frequencies(ProportionalScaling{
      .head_dim = 64, .base = 10000, .partial_rotary_factor = 0.5, .factor = 3});
  const auto divided =
      frequencies(posenc::LinearScaling{.rotary_dim = 64, .base = 10000, .factor = 3});
  for (std::size_t i = 0; i < 16; ++i) {
    CHECK(posenc::detail::exact_inv_freq(ours)[i] == posenc::detail::exact_inv_freq(divided)[i]);
  }
  CHECK(posenc::detail::exact_inv_freq(ours)[16] == DoubleDouble(0));
}

TEST_CASE("ProportionalScaling: a share of the pairs is rounded down", "[proportional]") {
  const auto num_rotated_pairs = [](Index head_dim, double share) {
    Index count = 0;
    const auto ours = frequencies(
        ProportionalScaling{.head_dim = head_dim, .base = 10000, .partial_rotary_factor = share});
    for (const double w : ours.inv_freq()) count += w != 0;
    return count;
  };
  CHECK(num_rotated_pairs(64, 1) == 32);
  CHECK(num_rotated_pairs(64, 0.99) == 31);
  CHECK(num_rotated_pairs(80, 0.4) == 16);
  CHECK(num_rotated_pairs(10, 0.5) == 2);
  CHECK(num_rotated_pairs(2, 1) == 1);
}

TEST_CASE(
    "ProportionalScaling: channels of pairs without rotation keep their bits, and are no suffix",
    "[proportional]") {
  const posenc::Rope<posenc::HalfRotate> rope(
      ProportionalScaling{.head_dim = 16, .base = 10000, .partial_rotary_factor = 0.25});
  std::vector<float> x(16);
  std::iota(x.begin(), x.end(), 1.0F);
  std::vector<float> y = x;
  rope.rotate(
      posenc::HeadsView<float>{.data = y.data(), .batch = 1, .seq = 1, .heads = 1, .dim = 16},
      posenc::Positions::range(123457, 1));
  for (std::size_t channel = 0; channel < 16; ++channel) {
    CAPTURE(channel);
    CHECK((y[channel] == x[channel]) == (channel % 8 >= 2));
  }
}

TEST_CASE("ProportionalScaling: rejects bad settings", "[rules]") {
  const ProportionalScaling rule{.head_dim = 64, .base = 10000, .partial_rotary_factor = 0.25};
  check_rejected(rule, &ProportionalScaling::head_dim, Index{63},
                 "ProportionalScaling: head_dim must be even and at least 2 but is 63");
  check_rejected(rule, &ProportionalScaling::base, 1.0,
                 "ProportionalScaling: base must be set, finite and greater than 1, but is 1");
  check_factor(rule);
  const std::string share =
      "ProportionalScaling: partial_rotary_factor must be set and lie in (0, 1] but is ";
  check_rejected(rule, &ProportionalScaling::partial_rotary_factor, 0.0, share + "0");
  check_rejected(rule, &ProportionalScaling::partial_rotary_factor, 1.5, share + "1.5");
  check_rejected(rule, &ProportionalScaling::partial_rotary_factor, not_a_number, share + "nan");
  check_rejected(rule, &ProportionalScaling::partial_rotary_factor, 0.01,
                 "ProportionalScaling: partial_rotary_factor must rotate at least one pair but is "
                 "0.01 of head_dim "
                 "64");
}

}  // namespace proportional_test
