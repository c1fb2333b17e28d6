// SPDX-License-Identifier: MIT
// Parts of MultiHeadAttention: none, and a user's types that model the concepts.
#include "module_case.hpp"
#include "support/catch.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/concepts.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <array>
#include <cmath>
#include <span>
#include <vector>

namespace multi_head_attention_parts_test {

using module_test::Embeddings;
using posenc::bsd;
using posenc::Causal;
using posenc::HeadsView;
using posenc::Index;
using posenc::MultiHeadAttention;
using posenc::Positions;

namespace {

/// A user's rotation by half a turn per position, which alternates the sign.
struct AlternatingSign {
  double multiplier = 1;

  template <class T>
  void rotate_queries(HeadsView<T> x, const Positions& positions) const {
    for (Index b = 0; b < x.batch; ++b) {
      for (Index s = 0; s < x.seq; ++s) {
        if (std::fmod(positions.at(b, s), 2) == 0) continue;
        for (Index h = 0; h < x.heads; ++h) {
          for (Index d = 0; d < x.dim; ++d) x.row(b, s, h)[d] = -x.row(b, s, h)[d];
        }
      }
    }
  }
  template <class T>
  void rotate_keys(HeadsView<T> x, const Positions& p) const {
    rotate_queries(x, p);
  }
  double softmax_scale_multiplier() const { return multiplier; }
};

/// A user's bias: head h favours keys at a distance of h.
struct LikesDistance {
  template <class Real>
  void add(Index head, std::span<const double> queries, std::span<const double> keys,
           posenc::MatrixView<Real> tile) const {
    for (Index i = 0; i < tile.rows; ++i) {
      for (Index j = 0; j < tile.cols; ++j) {
        const double distance =
            queries[static_cast<std::size_t>(i)] - keys[static_cast<std::size_t>(j)];
        if (distance == static_cast<double>(head)) tile.row(i)[j] += Real{2};
      }
    }
  }
};

// A rotary encoding without a backward pass suffices for inference.
static_assert(posenc::RotaryEncoding<AlternatingSign, float>);
static_assert(!posenc::DifferentiableRotary<AlternatingSign, float>);
static_assert(posenc::RotaryEncoding<AlternatingSign, double>);
static_assert(posenc::ScoreBias<LikesDistance, float> && posenc::ScoreBias<LikesDistance, double>);

constexpr Index batch = 2, seq = 6, dim = 12, heads = 3;
const posenc::MultiHeadAttentionConfig config{.model_dim = dim, .heads = heads};

template <class T, class Module>
Embeddings<T> forward(const Module& module, const Embeddings<T>& x,
                      const posenc::AttentionOptions<T>& options = {.causal = posenc::Causal::No},
                      const posenc::MultiHeadMemory<T>& memory = {}) {
  Embeddings<T> out(x.dimension(0), x.dimension(1), dim);
  module.forward(bsd(x), Positions::range(0, x.dimension(1)), bsd(out), options, memory);
  return out;
}

}  // namespace

TEMPLATE_TEST_CASE("MultiHeadAttention: a user's parts equal the reference", "[mha]", float,
                   double) {
  using T = TestType;
  for (const double multiplier : {1.0, 1.59}) {
    MultiHeadAttention<T, AlternatingSign, LikesDistance> module(config, {multiplier}, {});
    module_test::set_exact(module, 1);
    support::Random random(2);
    const auto x = module_test::random_embeddings<T>(random, batch, seq, dim);
    auto reference = module_test::reference_of(module);
    reference.rotate_query = [](const std::vector<double>& row, Index t) {
      auto turned = row;
      if (t % 2 == 1) {
        for (double& value : turned) value = -value;
      }
      return turned;
    };
    reference.rotate_key = reference.rotate_query;
    for (const double scale : {0.0, 0.25}) {
      posenc::AttentionOptions<T> options{.causal = Causal::No};
      if (scale != 0) options.scale = scale;
      const auto rule_of = [&](Index h) {
        reference::AttentionRule rule;
        rule.scale = (scale != 0 ? scale : 0.5) * multiplier;
        rule.bias = [h](Index i, Index j) { return i - j == h ? 2.0 : 0.0; };
        return rule;
      };
      INFO("multiplier " << multiplier << ", scale " << scale);
      CHECK(module_test::worst_error(reference, x, x, x, forward(module, x, options), rule_of, 2) <=
            1);
    }
  }
}

TEMPLATE_TEST_CASE("set_bias and set_rotary: a module computes as one that was made with them",
                   "[mha]", float, double) {
  using T = TestType;
  using Rope = posenc::Rope<posenc::HalfRotate>;
  using Module = MultiHeadAttention<T, Rope, posenc::Alibi>;
  const Rope slow(posenc::Frequencies::from_inv_freq(std::vector<double>{0.5, 0.25}));
  const Rope fast(posenc::Frequencies::from_inv_freq(std::vector<double>{1.0, 0.5}));
  const posenc::Alibi gentle({0.25, 0.5, 1}, posenc::AlibiForm::Symmetric);
  const posenc::Alibi steep({1, 2, 4}, posenc::AlibiForm::Symmetric);
  Module changed(config, slow, gentle), made(config, fast, steep);
  changed.randomize(5);
  made.randomize(5);
  support::Random random(6);
  const auto x = module_test::random_embeddings<T>(random, batch, seq, dim);
  CHECK_FALSE(module_test::same_bits(forward(changed, x), forward(made, x)));
  changed.set_rotary(fast);
  CHECK_FALSE(module_test::same_bits(forward(changed, x), forward(made, x)));
  changed.set_bias(steep);
  CHECK(module_test::same_bits(forward(changed, x), forward(made, x)));
}

TEMPLATE_TEST_CASE("softmax_scale_multiplier: of frequencies counts once in a module", "[mha]",
                   float, double) {
  using T = TestType;
  using Rope = posenc::Rope<posenc::HalfRotate>;
  const std::vector<double> w{1.0, 0.25};
  MultiHeadAttention<T, Rope> with(config, Rope(posenc::Frequencies::from_inv_freq(w, 1, 4)));
  MultiHeadAttention<T, Rope> without(config, Rope(posenc::Frequencies::from_inv_freq(w)));
  with.randomize(3);
  without.randomize(3);
  support::Random random(4);
  const auto x = module_test::random_embeddings<T>(random, batch, seq, dim);
  // With head_dim 4 the scale is 1/2, and 4 times that is exactly 2.
  CHECK(module_test::same_bits(forward(with, x),
                               forward(without, x, {.scale = 2, .causal = Causal::No})));
  CHECK(module_test::same_bits(forward(with, x, {.scale = 0.25, .causal = Causal::No}),
                               forward(without, x, {.scale = 1, .causal = Causal::No})));
  CHECK_FALSE(module_test::same_bits(forward(with, x), forward(without, x)));
  // Options may repeat the encoding's multiplier, as those of a model file do.
  CHECK(module_test::same_bits(
      forward(with, x, {.softmax_scale_multiplier = 4, .causal = Causal::No}), forward(with, x)));
  CHECK(module_test::same_bits(
      forward(without, x, {.softmax_scale_multiplier = 4, .causal = Causal::No}),
      forward(with, x)));
}

TEMPLATE_TEST_CASE("softmax_scale_multiplier: other than the encoding's is rejected by a module",
                   "[mha]", float, double) {
  using T = TestType;
  using Rope = posenc::Rope<posenc::HalfRotate>;
  MultiHeadAttention<T, Rope> module(config,
                                     Rope(posenc::Frequencies::from_inv_freq({1.0, 0.25}, 1, 4)));
  module.randomize(3);
  support::Random random(4);
  const auto x = module_test::random_embeddings<T>(random, 1, seq, dim);
  Embeddings<T> out(1, seq, dim);
  out.setConstant(T{77});
  const auto positions = Positions::range(0, seq);
  posenc::AttentionOptions<T> options{.softmax_scale_multiplier = 2, .causal = Causal::BottomRight};
  const auto rejected = Catch::Matchers::Message(
      "posenc::attention: softmax_scale_multiplier must be 1, or 4 as that of the rotary encoding, "
      "but is 2");
  const auto over_cache = Catch::Matchers::Message(
      "posenc::MultiHeadAttention::forward: softmax_scale_multiplier must be 1, or 4 as that of "
      "the rotary encoding, but is 2");
  CHECK_THROWS_MATCHES(module.forward(bsd(x), positions, bsd(out), options), posenc::ConfigError,
                       rejected);
  posenc::MultiHeadTape<T> tape;
  CHECK_THROWS_MATCHES(module.forward(bsd(x), positions, bsd(out), tape, options),
                       posenc::ConfigError, rejected);
  posenc::KvCache<T> cache({.kv_heads = heads, .head_dim = dim / heads, .capacity = seq});
  CHECK_THROWS_MATCHES(module.forward(bsd(x), positions, cache, {0}, bsd(out), options),
                       posenc::ConfigError, over_cache);
  CHECK(cache.length(0) == 0);
  for (Index n = 0; n < out.size(); ++n) CHECK(out.data()[n] == T{77});
  // Training and decoding take a repeated multiplier once, too.
  options.softmax_scale_multiplier = 4;
  Embeddings<T> grad(1, seq, dim), again(1, seq, dim);
  auto gradients = module.zero_gradients();
  module.forward(bsd(x), positions, bsd(out), tape, options);
  CHECK(module_test::same_bits(out, forward(module, x, {.causal = Causal::BottomRight})));
  module.backward(tape, bsd(x), bsd(grad), gradients);
  module.forward(bsd(x), positions, bsd(out), tape, {.causal = Causal::BottomRight});
  module.backward(tape, bsd(x), bsd(again), gradients);
  CHECK(module_test::same_bits(grad, again));
}

TEMPLATE_TEST_CASE("MultiHeadAttention: without positions attention does not depend on the order",
                   "[mha]", float, double) {
  using T = TestType;
  MultiHeadAttention<T> module(config);
  module_test::set_exact(module, 5);
  support::Random random(6);
  const auto x = module_test::random_embeddings<T>(random, 1, seq, dim);
  const std::array<Index, seq> order{4, 2, 0, 5, 1, 3};
  Embeddings<T> shuffled(1, seq, dim);
  for (Index s = 0; s < seq; ++s) {
    std::copy_n(&x(0, order[static_cast<std::size_t>(s)], 0), dim, &shuffled(0, s, 0));
  }
  const auto straight = forward(module, x), mixed = forward(module, shuffled);
  const auto input = module_test::matrix_of(x, 0);
  // Sums over keys run in another order, so both outputs are near the true value rather than equal.
  const double allowed = 2 * module_test::module_error<T>(module_test::reference_of(module), input,
                                                          input, input, 0.5, 0);
  double worst = 0;
  for (Index s = 0; s < seq; ++s) {
    for (Index d = 0; d < dim; ++d) {
      worst = support::worse(
          worst, std::abs(static_cast<double>(mixed(0, s, d) -
                                              straight(0, order[static_cast<std::size_t>(s)], d))));
    }
  }
  CHECK(worst <= allowed);

  // Positions do not change the result either.
  Embeddings<T> elsewhere(1, seq, dim);
  module.forward(bsd(x), Positions::ids({5, 4, 3, 2, 1, 0}), bsd(elsewhere),
                 {.causal = Causal::No});
  CHECK(module_test::same_bits(elsewhere, straight));
}

TEMPLATE_TEST_CASE("MultiHeadAttention: with positions equal tokens have different outputs",
                   "[mha]", float, double) {
  using T = TestType;
  using Rope = posenc::Rope<posenc::Interleaved>;
  support::Random random(7);
  auto x = module_test::random_embeddings<T>(random, 1, seq, dim);
  std::copy_n(&x(0, 1, 0), dim, &x(0, 4, 0));
  const auto difference = [&](auto module) {
    module_test::set_exact(module, 8);
    const auto y = forward(module, x);
    double largest = 0;
    for (Index d = 0; d < dim; ++d) {
      largest = support::worse(largest, std::abs(static_cast<double>(y(0, 1, d) - y(0, 4, d))));
    }
    return largest;
  };
  // Projections of equal rows are exact here, and so equal. The output projection may round.
  MultiHeadAttention<T> none(config);
  module_test::set_exact(none, 8);
  const auto reference = module_test::reference_of(none);
  const auto input = module_test::matrix_of(x, 0);
  const double rounding = 2 * module_test::module_error<T>(reference, input, input, input, 0.5, 0);
  CHECK(difference(none) <= rounding);
  CHECK(difference(MultiHeadAttention<T, Rope>(
            config, Rope(posenc::Frequencies::from_inv_freq(std::vector{1.0, 0.1})))) >
        100 * rounding);
  CHECK(difference(MultiHeadAttention<T, posenc::NoRotation, posenc::Alibi>(
            config, {}, posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Symmetric}))) >
        100 * rounding);
}

TEMPLATE_TEST_CASE("MultiHeadAttention: options reach the attention inside the module", "[mha]",
                   float, double) {
  using T = TestType;
  MultiHeadAttention<T> module(config);
  module.randomize(9);
  support::Random random(10);
  const auto x = module_test::random_embeddings<T>(random, batch, seq, dim);
  attention_test::Mask<T> weights(batch, heads, seq, seq);
  attention_test::Mask<bool> keep(1, 1, seq, seq);
  for (Index i = 0; i < seq; ++i) {
    for (Index j = 0; j < seq; ++j) keep.values(0, 0, i, j) = j <= i;
  }
  const auto causal = forward(module, x, {.causal = Causal::TopLeft}, {.weights = weights.view()});
  CHECK(module_test::same_bits(causal,
                               forward(module, x, {.causal = Causal::No, .keep = keep.view()})));
  CHECK(weights.at(1, 2, 0, 0) == T{1});
  CHECK(weights.at(1, 2, 0, 1) == T{0});
  // The module passes the tokens' positions to dropout.
  const auto dropped =
      forward(module, x, {.causal = Causal::No, .dropout = {0.5, 3}}, {.weights = weights.view()});
  for (Index j = 0; j < seq; ++j) {
    const double factor = posenc::dropout_factor({0.5, 3}, 1, 2, 4, static_cast<double>(j));
    CHECK((weights.at(1, 2, 4, j) == T{0}) == (factor == 0));
  }
}

}  // namespace multi_head_attention_parts_test
