// SPDX-License-Identifier: MIT
// Tests DynamicYarnScaling as a function of the length.
#include "frequency/rejections.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/dynamic_yarn.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>

#include <optional>
#include <vector>

namespace dynamic_yarn_test {

using posenc::DynamicYarnScaling;
using posenc::Frequencies;
using posenc::frequencies;
using posenc::Index;
using namespace rejections;  // NOLINT: every check of a rejection

namespace {

constexpr DynamicYarnScaling rule{.rotary_dim = 64, .base = 10000, .original_max_position = 2048};

Frequencies yarn(double factor) {
  return frequencies(posenc::YarnScaling{
      .rotary_dim = 64, .base = 10000, .factor = factor, .original_max_position = 2048});
}

}  // namespace

TEST_CASE("DynamicYarnScaling: Unscaled bit for bit up to the trained length", "[dynamic_yarn]") {
  const auto unscaled = frequencies(posenc::Unscaled{.rotary_dim = 64, .base = 10000});
  for (const Index length : {0, 1, 2047, 2048}) CHECK(frequencies(rule, length) == unscaled);
  CHECK(frequencies(rule, 2049) != unscaled);
}

TEST_CASE("DynamicYarnScaling: is YaRN with a factor that grows with the length",
          "[dynamic_yarn]") {
  // A double represents these factors exactly.
  CHECK(frequencies(rule, 8192) == yarn(4));
  CHECK(frequencies(rule, 3072) == yarn(1.5));
  CHECK(frequencies(rule, 2049) == yarn(2049.0 / 2048));
}

TEST_CASE("DynamicYarnScaling: a finetuned model begins with the factor of its finetuning",
          "[dynamic_yarn]") {
  DynamicYarnScaling finetuned = rule;
  finetuned.finetuned_max_position = 8192;
  CHECK(frequencies(finetuned, 0) == yarn(4));
  CHECK(frequencies(finetuned, 8192) == yarn(4));
  CHECK(frequencies(finetuned, 16384) == yarn(8));
}

TEST_CASE("DynamicYarnScaling: a longer sequence never rotates faster, and its scores grow",
          "[dynamic_yarn]") {
  auto previous = frequencies(rule, 2048);
  for (Index length = 2100; length < 1000000; length *= 2) {
    CAPTURE(length);
    const auto current = frequencies(rule, length);
    for (std::size_t i = 0; i < 32; ++i) {
      REQUIRE(posenc::detail::exact_inv_freq(current)[i] <=
              posenc::detail::exact_inv_freq(previous)[i]);
    }
    CHECK(posenc::detail::exact_inv_freq(current).back() <
          posenc::detail::exact_inv_freq(previous).back());
    CHECK(current.attention_factor() > previous.attention_factor());
    previous = current;
  }
}

TEST_CASE("DynamicYarnScaling: other ramps are passed on", "[dynamic_yarn]") {
  DynamicYarnScaling other = rule;
  other.beta_fast = 16;
  other.beta_slow = 2;
  other.truncate = false;
  CHECK(frequencies(other, 8192) == frequencies(posenc::YarnScaling{.rotary_dim = 64,
                                                                    .base = 10000,
                                                                    .factor = 4,
                                                                    .original_max_position = 2048,
                                                                    .beta_fast = 16,
                                                                    .beta_slow = 2,
                                                                    .truncate = false}));
}

TEST_CASE("DynamicYarnScaling: rejects bad settings", "[rules]") {
  const DynamicYarnScaling narrow{.rotary_dim = 8, .base = 10000, .original_max_position = 2048};
  check_shared_fields(narrow, 2);
  check_length(narrow);
  check_rejected(
      narrow, &DynamicYarnScaling::beta_slow, 33.0,
      "DynamicYarnScaling: 1e30 >= beta_fast >= beta_slow >= 1e-30 must hold but they are 32 "
      "and 33");
  check_rejected(
      narrow, &DynamicYarnScaling::beta_fast, 0.5,
      "DynamicYarnScaling: 1e30 >= beta_fast >= beta_slow >= 1e-30 must hold but they are 0.5 "
      "and 1");
  check_rejected(
      narrow, &DynamicYarnScaling::finetuned_max_position, std::optional<Index>(2047),
      "DynamicYarnScaling: finetuned_max_position must not be less than 2048 but is 2047");
}

}  // namespace dynamic_yarn_test
