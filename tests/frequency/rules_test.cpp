// SPDX-License-Identifier: MIT
// Every scaling rule against the plain reference, and the identities that hold bit for bit.
#include "frequency/presets.hpp"
#include "reference/frequencies.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>

#include <algorithm>
#include <cstdint>

using posenc::DynamicNtkScaling;
using posenc::Frequencies;
using posenc::frequencies;
using posenc::Index;
using posenc::LinearScaling;
using posenc::NtkScaling;
using posenc::Unscaled;
using posenc::YarnScaling;

namespace {

/// Within 1 ulp: the reference rounds its long double result to double once more.
void check_against(const Frequencies& ours, const reference::Frequencies& expected) {
  const auto inv_freq = ours.inv_freq();
  REQUIRE(inv_freq.size() == expected.inv_freq.size());
  std::uint64_t largest = 0;
  for (std::size_t i = 0; i < inv_freq.size(); ++i) {
    largest = std::max(
        largest, support::ulp_distance(inv_freq[i], static_cast<double>(expected.inv_freq[i])));
  }
  CHECK(largest <= 1);
  CHECK(support::ulp_distance(ours.attention_factor(), expected.attention_factor) <= 1);
  CHECK(ours.softmax_scale_multiplier() == 1);
}

}  // namespace

TEST_CASE("rules agree with the reference", "[rules]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    check_against(frequencies(Unscaled{.rotary_dim = dim, .base = base}),
                  reference::default_frequencies(dim, base));
    for (const double factor : {1.0, 1.5, 4.0, 32.0}) {
      CAPTURE(factor);
      check_against(frequencies(LinearScaling{.rotary_dim = dim, .base = base, .factor = factor}),
                    reference::linear_frequencies(dim, base, factor));
      check_against(frequencies(NtkScaling{.rotary_dim = dim, .base = base, .factor = factor}),
                    reference::ntk_frequencies(dim, base, static_cast<long double>(factor)));
      for (const Index length : {0, 2048, 2049, 5000, 1000000}) {
        CAPTURE(length);
        check_against(frequencies(DynamicNtkScaling{.rotary_dim = dim,
                                                    .base = base,
                                                    .factor = factor,
                                                    .original_max_position = 2048},
                                  length),
                      reference::dynamic_ntk_frequencies(dim, base, factor, 2048, length));
      }
      for (const bool truncate : {true, false}) {
        CAPTURE(truncate);
        check_against(frequencies(YarnScaling{.rotary_dim = dim,
                                              .base = base,
                                              .factor = factor,
                                              .original_max_position = 4096,
                                              .truncate = truncate}),
                      reference::yarn_frequencies({.rotary_dim = dim,
                                                   .base = base,
                                                   .factor = factor,
                                                   .original_max_position = 4096,
                                                   .truncate = truncate}));
      }
    }
  }
}

TEST_CASE("factor 1 is Unscaled bit for bit under every rule", "[rules]") {
  for (const auto& [model, base, dim] : presets::all) {
    CAPTURE(model);
    const Frequencies unscaled = frequencies(Unscaled{.rotary_dim = dim, .base = base});
    CHECK(frequencies(LinearScaling{.rotary_dim = dim, .base = base, .factor = 1}) == unscaled);
    CHECK(frequencies(NtkScaling{.rotary_dim = dim, .base = base, .factor = 1}) == unscaled);
    for (const bool truncate : {true, false}) {
      CHECK(frequencies(YarnScaling{.rotary_dim = dim,
                                    .base = base,
                                    .factor = 1,
                                    .original_max_position = 4096,
                                    .truncate = truncate}) == unscaled);
    }
    // With factor 1 and within the trained length.
    CHECK(frequencies(
              DynamicNtkScaling{
                  .rotary_dim = dim, .base = base, .factor = 1, .original_max_position = 4096},
              4096) == unscaled);
  }
}

TEST_CASE("linear scaling divides every frequency", "[rules]") {
  const auto unscaled = frequencies(Unscaled{.rotary_dim = 64, .base = 10000}).inv_freq();
  const auto halved =
      frequencies(LinearScaling{.rotary_dim = 64, .base = 10000, .factor = 2}).inv_freq();
  for (std::size_t i = 0; i < unscaled.size(); ++i) CHECK(halved[i] == unscaled[i] / 2);
}

TEST_CASE("NTK keeps the first frequency and divides the last by the factor", "[rules]") {
  const auto unscaled = frequencies(Unscaled{.rotary_dim = 128, .base = 10000});
  const auto scaled = frequencies(NtkScaling{.rotary_dim = 128, .base = 10000, .factor = 8});
  CHECK(scaled.exact_inv_freq().front() == 1.0);
  CHECK(support::ulp_distance(scaled.inv_freq().back(), unscaled.inv_freq().back() / 8) <= 1);
  for (std::size_t i = 1; i + 1 < 64; ++i) {
    const double ratio = unscaled.inv_freq()[i] / scaled.inv_freq()[i];
    CHECK(ratio > 1);
    CHECK(ratio < 8);
  }
}

TEST_CASE("the smallest rotary dimensions work", "[rules]") {
  CHECK(frequencies(Unscaled{.rotary_dim = 2, .base = 10000}).inv_freq() ==
        std::vector<double>{1.0});
  CHECK(frequencies(LinearScaling{.rotary_dim = 2, .base = 10000, .factor = 4}).inv_freq() ==
        std::vector<double>{0.25});
  CHECK(frequencies(NtkScaling{.rotary_dim = 4, .base = 10000, .factor = 4}).inv_freq()[0] == 1);
  CHECK(frequencies(
            YarnScaling{.rotary_dim = 2, .base = 10000, .factor = 4, .original_max_position = 64})
            .pairs() == 1);
}
