// SPDX-License-Identifier: MIT
// MultiHeadAttention equals the reference module, for every kind of positions.
#include "module_case.hpp"
#include "reference/alibi.hpp"
#include "support/catch.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <cmath>
#include <vector>

namespace multi_head_attention_test {

using module_test::Embeddings;
using posenc::bsd;
using posenc::Causal;
using posenc::Index;
using posenc::MultiHeadAttention;
using posenc::MultiHeadAttentionConfig;
using posenc::Positions;

namespace {

using Rope = posenc::Rope<posenc::HalfRotate>;

const MultiHeadAttentionConfig configs[] = {
    {.model_dim = 8, .heads = 1},
    {.model_dim = 16, .heads = 4},
    {.model_dim = 16, .heads = 4, .kv_heads = 2, .projection_bias = false},
    {.model_dim = 10, .heads = 3, .kv_heads = 1, .head_dim = 4, .value_dim = 6},
    {.model_dim = 12, .heads = 2, .key_input_dim = 10, .value_input_dim = 7},
    {.model_dim = 12, .heads = 2, .value_dim = 1, .key_input_dim = 3, .projection_bias = false},
};

Rope rope_of(const MultiHeadAttentionConfig& config) {
  const Index head_dim = config.head_dim != 0 ? config.head_dim : config.model_dim / config.heads;
  return Rope(posenc::Frequencies::from_inv_freq(
      std::vector<double>(static_cast<std::size_t>(head_dim / 2), 0.37)));
}

posenc::Alibi alibi_of(const MultiHeadAttentionConfig& config) {
  return posenc::Alibi({.heads = config.heads, .form = posenc::AlibiForm::Symmetric});
}

constexpr double first_query = 3, first_key = 1;

/// Returns the reference's rule for a module with or without ALiBi. Queries have positions from 3
/// on, keys from 1 on.
template <class Module>
reference::RuleOfHead rule_of(const Module& module, bool with_alibi) {
  const auto config = module.config();
  return [=](Index h) {
    reference::AttentionRule rule;
    rule.scale = 1 / std::sqrt(static_cast<double>(config.head_dim));
    const double slope = reference::alibi_slopes(config.heads)[static_cast<std::size_t>(h)];
    if (with_alibi) {
      rule.bias = [slope](Index i, Index j) {
        return reference::alibi_bias(slope, first_query + static_cast<double>(i),
                                     first_key + static_cast<double>(j),
                                     reference::AlibiForm::Symmetric);
      };
    }
    rule.allowed = [](Index i, Index j) { return j <= i + 2; };  // by position
    return rule;
  };
}

template <class T, class Rotary, class Bias>
double error_of(const MultiHeadAttentionConfig& config, const Rotary& rotary, const Bias& bias) {
  MultiHeadAttention<T, Rotary, Bias> module(config, rotary, bias);
  module_test::set_exact(module, 1);
  const auto& c = module.config();
  support::Random random(2);
  const Index batch = 2, queries = 5, keys = 6;
  const auto x = module_test::random_embeddings<T>(random, batch, queries, c.model_dim);
  const auto from_k = module_test::random_embeddings<T>(random, batch, keys, c.key_input_dim);
  const auto from_v = module_test::random_embeddings<T>(random, batch, keys, c.value_input_dim);
  Embeddings<T> out(batch, queries, c.model_dim);
  module.forward(bsd(x), Positions::range(3, queries), bsd(from_k), bsd(from_v),
                 Positions::range(1, keys), bsd(out), {.causal = Causal::ByPosition});

  auto reference = module_test::reference_of(module);
  constexpr bool rotates = std::is_same_v<Rotary, Rope>,
                 biased = !std::is_same_v<Bias, posenc::NoBias>;
  if (rotates) {
    const std::vector<long double> w(static_cast<std::size_t>(c.head_dim / 2),
                                     static_cast<long double>(0.37));
    const reference::RopeRule half{reference::Pairing::HalfRotate};
    reference.rotate_query = module_test::rotate_from(first_query, w, half);
    reference.rotate_key = module_test::rotate_from(first_key, w, half);
  }
  return module_test::worst_error(reference, x, from_k, from_v, out, rule_of(module, biased),
                                  biased ? 7 : 0);
}

}  // namespace

TEMPLATE_TEST_CASE("MultiHeadAttention: equals the reference", "[mha]", float, double) {
  using T = TestType;
  for (const auto& config : configs) {
    INFO("model_dim " << config.model_dim << ", heads " << config.heads << " over "
                      << config.kv_heads << ", value_dim " << config.value_dim);
    CHECK(error_of<T>(config, posenc::NoRotation{}, posenc::NoBias{}) <= 1);
    CHECK(error_of<T>(config, rope_of(config), posenc::NoBias{}) <= 1);
    CHECK(error_of<T>(config, posenc::NoRotation{}, alibi_of(config)) <= 1);
    CHECK(error_of<T>(config, rope_of(config), alibi_of(config)) <= 1);
  }
}

TEMPLATE_TEST_CASE("MultiHeadAttention: self attention is cross attention with itself", "[mha]",
                   float, double) {
  using T = TestType;
  MultiHeadAttention<T, Rope> module({.model_dim = 16, .heads = 4, .kv_heads = 2},
                                     rope_of(configs[1]));
  module.randomize(3);
  support::Random random(4);
  const auto x = module_test::random_embeddings<T>(random, 3, 7, 16);
  const auto positions = Positions::starts({0, 100, -5}, 7);
  Embeddings<T> self(3, 7, 16), cross(3, 7, 16);
  module.forward(bsd(x), positions, bsd(self), {.causal = Causal::BottomRight});
  module.forward(bsd(x), positions, bsd(x), bsd(x), positions, bsd(cross),
                 {.causal = Causal::BottomRight});
  CHECK(module_test::same_bits(self, cross));

  auto in_place = x;
  module.forward(bsd(in_place), positions, bsd(in_place), {.causal = Causal::BottomRight});
  CHECK(module_test::same_bits(self, in_place));
}

TEMPLATE_TEST_CASE("MultiHeadAttention: column-major tensors and slices give the same bits",
                   "[mha]", float, double) {
  using T = TestType;
  MultiHeadAttention<T, Rope> module({.model_dim = 16, .heads = 4}, rope_of(configs[1]));
  module.randomize(5);
  support::Random random(6);
  const auto x = module_test::random_embeddings<T>(random, 2, 5, 16);
  Embeddings<T> want(2, 5, 16), wide_x(2, 9, 20), wide_out(2, 9, 20);
  module.forward(bsd(x), Positions::range(0, 5), bsd(want), {.causal = Causal::No});

  const Eigen::Tensor<T, 3> mirrored = x.swap_layout();
  Eigen::Tensor<T, 3> out(16, 5, 2);
  module.forward(posenc::dsb(mirrored), Positions::range(0, 5), posenc::dsb(out),
                 {.causal = Causal::No});
  CHECK(module_test::same_bits<T>(want, out.swap_layout()));

  wide_x.setZero();
  wide_out.setZero();
  const auto slice = [](Embeddings<T>& of) {
    return posenc::slice_features(posenc::slice_seq(bsd(of), 3, 5), 2, 16);
  };
  for (Index b = 0; b < 2; ++b) {
    for (Index s = 0; s < 5; ++s) std::copy_n(&x(b, s, 0), 16, slice(wide_x).row(b, s));
  }
  module.forward(slice(wide_x), Positions::range(0, 5), slice(wide_out), {.causal = Causal::No});
  for (Index b = 0; b < 2; ++b) {
    for (Index s = 0; s < 5; ++s) {
      CHECK(support::same_bits<T>(slice(wide_out).row(b, s), &want(b, s, 0), 16));
    }
  }
}

TEMPLATE_TEST_CASE("MultiHeadAttention: a batch row does not depend on its neighbours", "[mha]",
                   float, double) {
  using T = TestType;
  MultiHeadAttention<T, Rope, posenc::Alibi> module({.model_dim = 16, .heads = 4, .kv_heads = 1},
                                                    rope_of(configs[1]), alibi_of(configs[1]));
  module.randomize(7);
  support::Random random(8);
  for (const Index seq : {1, 3, 40}) {
    const auto x = module_test::random_embeddings<T>(random, 3, seq, 16);
    Embeddings<T> together(3, seq, 16);
    module.forward(bsd(x), Positions::range(9, seq), bsd(together), {.causal = Causal::TopLeft});
    for (Index b = 0; b < 3; ++b) {
      Embeddings<T> one(1, seq, 16), alone(1, seq, 16);
      std::copy_n(&x(b, 0, 0), one.size(), one.data());
      module.forward(bsd(one), Positions::range(9, seq), bsd(alone), {.causal = Causal::TopLeft});
      CHECK(support::same_bits(alone.data(), &together(b, 0, 0), alone.size()));
    }
  }
}

TEMPLATE_TEST_CASE("MultiHeadAttention: random parameters depend on the seed alone", "[mha]", float,
                   double) {
  using Module = MultiHeadAttention<TestType>;
  Module a({.model_dim = 16, .heads = 4}), b({.model_dim = 16, .heads = 4}),
      c({.model_dim = 16, .heads = 4});
  CHECK(a.query_projection.weight == posenc::ParameterMatrix<TestType>(16, 16));
  a.randomize(1);
  b.randomize(1);
  c.randomize(2);
  const auto weights = [](const Module& m) {
    return std::vector{m.query_projection.weight, m.key_projection.weight,
                       m.value_projection.weight, m.output_projection.weight};
  };
  const auto of_a = weights(a), of_c = weights(c);
  CHECK(of_a == weights(b));
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 4; ++j) {
      CHECK(of_a[i] != of_c[j]);
      CHECK((i == j) == (of_a[i] == of_a[j]));
    }
  }
}

TEMPLATE_TEST_CASE("MultiHeadAttention: empty batches and sequences are legal", "[mha]", float,
                   double) {
  using T = TestType;
  MultiHeadAttention<T, Rope> module({.model_dim = 16, .heads = 4}, rope_of(configs[1]));
  module_test::set_exact(module, 9);
  for (const Index batch : {0, 2}) {
    Embeddings<T> none(batch, 0, 16), out(batch, 0, 16);
    CHECK_NOTHROW(
        module.forward(bsd(none), Positions::range(0, 0), bsd(out), {.causal = Causal::No}));
    // Queries without keys output the bias of the output projection.
    Embeddings<T> x(batch, 3, 16), blind(batch, 3, 16);
    x.setConstant(1);
    module.forward(bsd(x), Positions::range(0, 3), bsd(none), bsd(none), Positions::range(0, 0),
                   bsd(blind), {.causal = Causal::No});
    for (Index n = 0; n < blind.size(); ++n) {
      CHECK(blind.data()[n] == module.output_projection.bias(n % 16));
    }
  }
}

}  // namespace multi_head_attention_test
