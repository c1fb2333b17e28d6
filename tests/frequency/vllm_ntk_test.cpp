// SPDX-License-Identifier: MIT
// The two rules that vLLM calls "ntk".
#include "frequency/presets.hpp"
#include "frequency/rejections.hpp"
#include "frequency/slowdown.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/vllm_ntk.hpp>

#include <cmath>
#include <cstddef>
#include <string>

namespace vllm_ntk_test {

using posenc::Frequencies;
using posenc::frequencies;
using posenc::NtkScaling;
using posenc::VllmMixedNtkScaling;
using posenc::VllmNtkScaling;
using namespace rejections;  // NOLINT: every check of a rejection
using slowdowns::check_increasing;
using slowdowns::slowdown;
using slowdowns::unscaled;

TEST_CASE("VllmNtkScaling: slows the first pair as well, and the last by the factor", "[ntk]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    const Frequencies ours =
        frequencies(VllmNtkScaling{.rotary_dim = dim, .base = base, .factor = 8});
    const auto by = slowdown(ours, unscaled(dim, base));
    CHECK(by.front() == Approx(std::pow(8, 2.0 / static_cast<double>(dim))).epsilon(1e-14));
    CHECK(by.back() == 8);
    check_increasing(by);
    CHECK(ours != frequencies(NtkScaling{.rotary_dim = dim, .base = base, .factor = 8}));
  }
}

TEST_CASE("VllmMixedNtkScaling: bends between its ends", "[ntk]") {
  const auto by = [](double mixed_b) {
    return slowdown(frequencies(VllmMixedNtkScaling{
                        .rotary_dim = 64, .base = 10000, .factor = 8, .mixed_b = mixed_b}),
                    unscaled(64, 10000));
  };
  const auto straight =
      slowdown(frequencies(VllmNtkScaling{.rotary_dim = 64, .base = 10000, .factor = 8}),
               unscaled(64, 10000));
  for (std::size_t i = 0; i < 32; ++i) {
    CAPTURE(i);
    CHECK(support::ulp_distance(by(1)[i], straight[i]) <= 1);
    if (i == 31) break;
    CHECK(by(0.625)[i] > straight[i]);
    CHECK(by(2)[i] < straight[i]);
  }
  CHECK(by(0.625).back() == 8);
  CHECK(by(1000).back() == 8);
  check_increasing(by(0.625));
  // The ramp is so steep that all pairs except the last keep their frequency.
  CHECK(by(1000)[30] == Approx(1).margin(1e-12));
}

TEST_CASE("VllmNtkScaling: rejects bad settings", "[rules]") {
  const VllmNtkScaling rule{.rotary_dim = 8, .base = 10000, .factor = 2};
  check_shared_fields(rule, 2);
  check_factor(rule);
}

TEST_CASE("VllmMixedNtkScaling: rejects bad settings", "[rules]") {
  const VllmMixedNtkScaling rule{.rotary_dim = 8, .base = 10000, .factor = 2, .mixed_b = 0.625};
  check_shared_fields(rule, 2);
  check_factor(rule);
  const std::string mixed_b =
      "VllmMixedNtkScaling: mixed_b must be set and lie in (0, 1000] but is ";
  check_rejected(rule, &VllmMixedNtkScaling::mixed_b, 0.0, mixed_b + "0");
  check_rejected(rule, &VllmMixedNtkScaling::mixed_b, -1.0, mixed_b + "-1");
  check_rejected(rule, &VllmMixedNtkScaling::mixed_b, 1001.0, mixed_b + "1001");
  check_rejected(rule, &VllmMixedNtkScaling::mixed_b, not_a_number, mixed_b + "nan");
}

}  // namespace vllm_ntk_test
