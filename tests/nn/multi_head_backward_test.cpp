// SPDX-License-Identifier: MIT
// Backward pass of MultiHeadAttention against central differences, and its tape.
#include "module_gradients.hpp"
#include "support/catch.hpp"
#include <posenc/attention/relative_bias.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/xpos.hpp>

#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace multi_head_backward_test {

using module_test::Embeddings;
using module_test::Training;
using posenc::bsd;
using posenc::Causal;
using posenc::Index;
using posenc::MultiHeadAttention;
using posenc::MultiHeadTape;
using posenc::Positions;

namespace {

// Grouped heads, another value_dim, and cross attention from inputs of other widths.
constexpr posenc::MultiHeadAttentionConfig grouped{.model_dim = 5,
                                                   .heads = 4,
                                                   .kv_heads = 2,
                                                   .head_dim = 6,
                                                   .value_dim = 3,
                                                   .key_input_dim = 4,
                                                   .value_input_dim = 7};
constexpr posenc::MultiHeadAttentionConfig square{.model_dim = 8, .heads = 2};

}  // namespace

TEST_CASE("MultiHeadAttention backward: cross attention with a rope and ALiBi equals slopes",
          "[mha][backward]") {
  std::vector<double> inv_freq{0.75, 0.2}, slopes{0.5, 0.25, 0.1, 0.4};
  const auto make = [&] {
    // Factors of vectors and of scores, over a slice of the head.
    using Rope = posenc::Rope<posenc::HalfRotate>;
    return MultiHeadAttention<double, Rope, posenc::Alibi>(
        grouped, Rope(posenc::Frequencies::from_inv_freq(inv_freq, 1.25, 0.75), 1),
        posenc::Alibi(slopes, posenc::AlibiForm::Symmetric));
  };
  Training training(make, {}, false);
  // Sinks join the softmax. The mask hides a key from one head and favours others.
  std::vector<double> sinks{0.5, -1, 0.25, 2};
  Embeddings<double> additive(4, 3, 4);
  for (Index n = 0; n < additive.size(); ++n) additive.data()[n] = 0.1 * double(n % 7);
  additive(1, 2, 3) = -std::numeric_limits<double>::infinity();
  Embeddings<double> of_additive(4, 3, 4);
  of_additive.setZero();
  training.options.sinks = sinks;
  training.options.additive = {additive.data(), 1, 4, 3, 4};
  training.options.scale = 0.6;
  training.options.softmax_scale_multiplier = 0.75;  // repeats that of the rope
  auto gradients = training.module.zero_gradients();
  gradients.rotary = training.module.rotary().zero_frequency_gradient();
  gradients.sinks.resize(4);
  gradients.additive = {of_additive.data(), 1, 4, 3, 4};
  training.check_all(gradients);
  training.check("frequencies", inv_freq.data(), gradients.rotary.data(), 2);
  training.check("slopes", slopes.data(), gradients.bias.data(), 4);
  training.check("sinks", sinks.data(), gradients.sinks.data(), 4);
  training.check("additive", additive.data(), of_additive.data(), 5);
}

TEST_CASE("MultiHeadAttention backward: self attention with a rope and T5's table equals slopes",
          "[mha][backward]") {
  std::vector<double> table(16), inv_freq{1, 0.3};
  for (std::size_t n = 0; n < table.size(); ++n) table[n] = 0.3 * std::sin(double(n));
  auto config = square;
  config.projection_bias = false;
  const auto make = [&] {
    const posenc::MatrixView<const double> view{table.data(), 8, 2};
    return MultiHeadAttention<double, posenc::AnyRope, posenc::T5Bias<double>>(
        config,
        posenc::AnyRope(posenc::PairingKind::Interleaved,
                        posenc::Frequencies::from_inv_freq(inv_freq)),
        posenc::T5Bias<double>(
            view, {.buckets = 8, .max_distance = 16, .direction = posenc::T5Direction::Causal}));
  };
  Training training(make, {}, true);
  training.options.causal = Causal::TopLeft;
  auto gradients = training.module.zero_gradients();
  gradients.rotary = training.module.rotary().zero_frequency_gradient();
  training.check_all(gradients);
  training.check("frequencies", inv_freq.data(), gradients.rotary.data(), 2);
  training.check("table", table.data(), gradients.bias.view().data, 16);
}

TEST_CASE("MultiHeadAttention backward: other encodings equal slopes", "[mha][backward]") {
  SECTION("none, fixed order") {
    const auto make = [] {
      return MultiHeadAttention<double, posenc::NoRotation, posenc::NoBias,
                                posenc::FixedOrderLinear<double>>(grouped);
    };
    Training training(make, {.batch = 2, .queries = 2, .keys = 3}, false);
    auto gradients = training.module.zero_gradients();
    training.check_all(gradients);
  }
  SECTION("a table that is multiplied with queries") {
    std::vector<double> table(5 * 2 * 4), of_table(table.size());
    for (std::size_t n = 0; n < table.size(); ++n) table[n] = std::sin(double(n));
    const auto make = [&] {
      using Relative = posenc::RelativeBias<double>;
      return MultiHeadAttention<double, posenc::NoRotation, Relative>(
          square, {},
          Relative{.table = {table.data(), 1, 5, 2, 4},
                   .index = {.order = posenc::RelativeOrder::KeyMinusQuery,
                             .first = -2,
                             .beyond = posenc::BeyondTable::Nearest},
                   .scale = posenc::RelativeScale::Scaled});
    };
    Training training(make, {}, true);
    training.positions[0] = Positions::range(0, 3);
    auto gradients = training.module.zero_gradients();
    gradients.bias.table = {of_table.data(), 1, 5, 2, 4};
    training.check_all(gradients);
    training.check("table", table.data(), of_table.data(), std::ssize(table));
  }
  SECTION("xPos") {
    const auto make = [] {
      using XPos = posenc::XPos<posenc::Interleaved>;
      return MultiHeadAttention<double, XPos>(
          square, XPos(posenc::Unscaled{.rotary_dim = 4, .base = 100}, {.scale_base = 16}, 0));
    };
    Training training(make, {}, true);
    auto gradients = training.module.zero_gradients();
    training.check_all(gradients);
  }
  SECTION("mixed rope on two axes") {
    std::vector<double> inv_freq{1, 0.25, 0.5, 0.75, -0.5, 1, 0.25, 0.125};
    const auto make = [&] {
      using Mixed = posenc::MixedRope<posenc::Interleaved>;
      return MultiHeadAttention<double, Mixed>(
          square, Mixed(inv_freq, {.axes = 2, .heads = 2, .rotary_dim = 4}));
    };
    Training training(make, {.queries = 6}, true);
    training.positions[0] = Positions::grid(2, 3);
    auto gradients = training.module.zero_gradients();
    gradients.rotary = training.module.rotary().zero_frequency_gradient();
    training.check_all(gradients);
    training.check("frequencies", inv_freq.data(), gradients.rotary.data(), 8);
  }
}

}  // namespace multi_head_backward_test
