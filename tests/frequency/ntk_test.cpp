// SPDX-License-Identifier: MIT
// The static rules that change the base, and the differences between them.
#include "frequency/presets.hpp"
#include "frequency/rejections.hpp"
#include "frequency/slowdown.hpp"
#include "support/catch.hpp"
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/ntk.hpp>

#include <utility>

namespace ntk_test {

using posenc::AlphaNtkScaling;
using posenc::Frequencies;
using posenc::frequencies;
using posenc::Index;
using posenc::NtkScaling;
using posenc::detail::DoubleDouble;
using namespace rejections;  // NOLINT: every check of a rejection
using slowdowns::check_increasing;
using slowdowns::slowdown;
using slowdowns::unscaled;

TEST_CASE("NtkScaling: keeps the first pair and slows the last by the factor", "[ntk]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    const Frequencies ours = frequencies(NtkScaling{.rotary_dim = dim, .base = base, .factor = 8});
    const auto by = slowdown(ours, unscaled(dim, base));
    CHECK(posenc::detail::exact_inv_freq(ours).front() == DoubleDouble(1));
    CHECK(by.back() == 8);
    check_increasing(by);
  }
}

TEST_CASE("AlphaNtkScaling: alpha is NTK's factor under another name", "[ntk]") {
  CHECK(frequencies(AlphaNtkScaling{.rotary_dim = 128, .base = 10000, .alpha = 1000}) ==
        frequencies(NtkScaling{.rotary_dim = 128, .base = 10000, .factor = 1000}));
}

TEST_CASE("AlphaNtkScaling: vLLM's dynamic rule is static, alpha = s^2 - s + 1", "[ntk]") {
  for (const auto& [factor, alpha] : {std::pair{2.0, 3.0}, {4.0, 13.0}, {8.0, 57.0}}) {
    const posenc::DynamicNtkScaling dynamic{
        .rotary_dim = 128, .base = 10000, .factor = factor, .original_max_position = 4096};
    CHECK(frequencies(dynamic, static_cast<Index>(4096 * factor)) ==
          frequencies(AlphaNtkScaling{.rotary_dim = 128, .base = 10000, .alpha = alpha}));
  }
}

TEST_CASE("NtkScaling: rejects bad settings", "[rules]") {
  const NtkScaling rule{.rotary_dim = 8, .base = 10000, .factor = 2};
  check_shared_fields(rule, 4);
  check_factor(rule);
}

TEST_CASE("AlphaNtkScaling: rejects bad settings", "[rules]") {
  const AlphaNtkScaling rule{.rotary_dim = 8, .base = 10000, .alpha = 1000};
  check_shared_fields(rule, 4);
  check_at_least_1(rule, &AlphaNtkScaling::alpha,
                   "AlphaNtkScaling: alpha must be set, finite and at least 1, but is ");
}

}  // namespace ntk_test
