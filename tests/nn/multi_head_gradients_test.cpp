// SPDX-License-Identifier: MIT
// Types and shapes of the gradients of a module.
#include "support/catch.hpp"
#include <posenc/attention/relative_bias.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/nn/multi_head_gradients.hpp>

#include <type_traits>
#include <vector>

namespace multi_head_gradients_test {

using posenc::LinearParameters;
using posenc::MultiHeadAttention;
using posenc::ParameterMatrix;
using posenc::detail::GradientOf;

namespace {

struct Unlearned {};

}  // namespace

static_assert(std::is_same_v<GradientOf<Unlearned>, posenc::NoGradient>);
static_assert(std::is_same_v<GradientOf<posenc::Alibi>, std::vector<double>>);
static_assert(
    std::is_same_v<GradientOf<posenc::RelativeBias<float>>, posenc::RelativeGradient<float>>);
static_assert(std::is_same_v<GradientOf<LinearParameters<double>>, LinearParameters<double>>);

TEST_CASE("MultiHeadGradients: zeros in the shapes of the parameters", "[mha][backward]") {
  MultiHeadAttention<float, posenc::NoRotation, posenc::Alibi> module(
      {.model_dim = 6,
       .heads = 4,
       .kv_heads = 2,
       .head_dim = 3,
       .value_dim = 5,
       .projection_bias = true,
       .qk_norm = {.over = posenc::QkNormOver::AllHeads,
                   .weight = posenc::QkNormWeight::Factor,
                   .epsilon = 1e-6}},
      {}, posenc::Alibi({.heads = 4, .form = posenc::AlibiForm::Causal}));
  module.randomize(1);
  const auto zeros = module.zero_gradients();
  CHECK(zeros.query_projection.weight == ParameterMatrix<float>(12, 6));
  CHECK(zeros.key_projection.weight == ParameterMatrix<float>(6, 6));
  CHECK(zeros.value_projection.weight == ParameterMatrix<float>(10, 6));
  CHECK(zeros.output_projection.weight == ParameterMatrix<float>(6, 20));
  CHECK(zeros.value_projection.bias == ParameterMatrix<float>(1, 10));
  CHECK(zeros.bias == std::vector<double>(4));
  CHECK(zeros.query_norm.size() == 12);
  CHECK(zeros.key_norm.size() == 6);
  // The user allocates these.
  CHECK(zeros.rotary.empty());
  CHECK(zeros.sinks.empty());
  CHECK(zeros.additive.data == nullptr);
}

TEST_CASE("MultiHeadGradients: a default-constructed gradient of a projection has no parameters",
          "[mha][backward]") {
  const posenc::MultiHeadGradients<float> none;
  CHECK(none.query_projection.parameter_count() == 0);
  CHECK(none.key_projection.parameter_count() == 0);
  CHECK(none.value_projection.parameter_count() == 0);
  CHECK(none.output_projection.parameter_count() == 0);
  CHECK(none.query_norm.size() == 0);
}

}  // namespace multi_head_gradients_test
