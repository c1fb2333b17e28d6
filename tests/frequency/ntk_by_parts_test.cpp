// SPDX-License-Identifier: MIT
// The YaRN paper's ramp over rotations.
#include "frequency/ramps.hpp"
#include "frequency/rejections.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/ntk_by_parts.hpp>
#include <posenc/frequency/yarn.hpp>

#include <string>

namespace ntk_by_parts_test {

using posenc::frequencies;
using posenc::NtkByPartsScaling;
using namespace rejections;  // NOLINT: every check of a rejection
using ramps::check_parts;
using ramps::linear;
using ramps::unscaled;

TEST_CASE("NtkByPartsScaling: the paper's ramp differs from the one in use", "[ramps]") {
  // Llama-2 with factor 16, pair 38: 0.115 w by rotations and 0.351 w by index.
  const NtkByPartsScaling paper{
      .rotary_dim = 128, .base = 10000, .factor = 16, .original_max_position = 4096};
  const auto kept = unscaled(128, 10000);
  check_parts(frequencies(paper), kept, linear(128, 10000, 16), 4096, 1, 32);
  const auto code = frequencies(posenc::YarnScaling{
      .rotary_dim = 128, .base = 10000, .factor = 16, .original_max_position = 4096});
  CHECK(frequencies(paper).inv_freq()[38] / kept.inv_freq()[38] == Approx(0.115).margin(0.0005));
  CHECK(code.inv_freq()[38] / kept.inv_freq()[38] == Approx(0.351).margin(0.0005));
}

TEST_CASE("NtkByPartsScaling: rejects bad settings", "[rules]") {
  const NtkByPartsScaling rule{
      .rotary_dim = 8, .base = 10000, .factor = 2, .original_max_position = 2048};
  check_shared_fields(rule, 2);
  check_factor(rule);
  check_length(rule);
  const std::string ends = "NtkByPartsScaling: beta >= alpha > 0 must hold but they are ";
  check_rejected(rule, &NtkByPartsScaling::alpha, 0.0, ends + "32 and 0");
  check_rejected(rule, &NtkByPartsScaling::alpha, 33.0, ends + "32 and 33");
  check_rejected(rule, &NtkByPartsScaling::alpha, not_a_number, ends + "32 and nan");
  check_rejected(rule, &NtkByPartsScaling::beta, infinity, ends + "inf and 1");
  check_rejected(rule, &NtkByPartsScaling::beta, 0.5, ends + "0.5 and 1");
}

}  // namespace ntk_by_parts_test
