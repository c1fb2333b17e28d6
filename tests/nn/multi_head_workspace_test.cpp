// SPDX-License-Identifier: MIT
// With a MultiHeadWorkspace, calls after the first allocate nothing.
#include "module_case.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <vector>

namespace multi_head_workspace_test {

using module_test::Embeddings;
using posenc::bsd;
using posenc::Causal;
using posenc::FixedOrderLinear;
using posenc::Index;
using posenc::Linear;
using posenc::MultiHeadWorkspace;
using posenc::Positions;

namespace {

template <class Layer>
auto make_module() {
  using Rope = posenc::Rope<posenc::HalfRotate>;
  posenc::MultiHeadAttention<module_test::ScalarOf<Layer>, Rope, posenc::Alibi, Layer> module(
      {.model_dim = 24, .heads = 4, .kv_heads = 2},
      Rope(posenc::Frequencies::from_inv_freq(std::vector{1.0, 0.5, 0.1})),
      posenc::Alibi({.heads = 4, .form = posenc::AlibiForm::Causal}));
  module.randomize(1);
  return module;
}

}  // namespace

TEMPLATE_TEST_CASE("workspace: a module with a reused workspace allocates nothing",
                   "[mha][workspace]", Linear<float>, Linear<double>, FixedOrderLinear<float>,
                   FixedOrderLinear<double>) {
  using T = module_test::ScalarOf<TestType>;
  constexpr Index seq = 40;  // more than "few" tokens, see Linear
  const auto module = make_module<TestType>();
  support::Random random(2);
  const auto x = module_test::random_embeddings<T>(random, 2, seq, 24);
  const auto positions = Positions::range(0, seq);
  Embeddings<T> want(2, seq, 24), out(2, seq, 24);
  module.forward(bsd(x), positions, bsd(want), {.causal = Causal::BottomRight});
  MultiHeadWorkspace workspace;
  CHECK(workspace.bytes() == 0);
  const auto run = [&](Index count) {
    module.forward(posenc::slice_seq(bsd(x), 0, count), Positions::range(0, count),
                   posenc::slice_seq(bsd(out), 0, count), {.causal = Causal::BottomRight},
                   {.workspace = &workspace});
  };
  run(seq);
  CHECK(module_test::same_bits(out, want));
  const auto bytes = workspace.bytes();
  CHECK(bytes >= 2 * seq * (24 + 12 + 12 + 24) * sizeof(T));
  const auto before = support::allocations();
  run(seq);
  run(4);
  CHECK(support::allocations() == before);
  CHECK(workspace.bytes() == bytes);
}

TEMPLATE_TEST_CASE("workspace: decoding with a reused workspace allocates nothing",
                   "[mha][workspace]", Linear<float>, Linear<double>, FixedOrderLinear<float>,
                   FixedOrderLinear<double>) {
  using T = module_test::ScalarOf<TestType>;
  const auto module = make_module<TestType>();
  support::Random random(3);
  const auto x = module_test::random_embeddings<T>(random, 1, 1, 24);
  Embeddings<T> out(1, 1, 24);
  posenc::KvCache<T> cache({.kv_heads = 2, .head_dim = 6, .capacity = 200});
  MultiHeadWorkspace workspace;
  const std::vector<Index> sequence{0};
  const auto step = [&] {
    module.forward(bsd(x), Positions::range(cache.length(0), 1), cache, sequence, bsd(out),
                   {.causal = Causal::BottomRight}, {.workspace = &workspace});
  };
  step();
  const auto before = support::allocations();
  for (int i = 0; i < 150; ++i) step();
  CHECK(support::allocations() == before);
}

}  // namespace multi_head_workspace_test
