// SPDX-License-Identifier: MIT
// attention_backward() without memory leaves gradients unchanged.
#include "memory/watched_device.hpp"
#include "memory/without_memory.hpp"
#include "support/catch.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/forgetting.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/t5.hpp>

#include <span>
#include <string>
#include <vector>

namespace backward_without_memory_test {

using memory_test::check_calls;
using memory_test::heads_view;
using memory_test::numbers;
using memory_test::tokens_view;
using memory_test::WatchedDevice;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::Index;

namespace {

constexpr Index batch = 2, queries = 7, keys = 300, heads = 4, kv_heads = 2, dim = 8;

}  // namespace

TEST_CASE("attention_backward without memory: writes nothing", "[memory][attention][backward]") {
  const auto q = numbers(batch * queries * heads * dim, 1),
             k = numbers(batch * keys * kv_heads * dim, 2);
  const auto in = heads_view(q.data(), batch, queries, heads, dim);
  const auto kv = heads_view(k.data(), batch, keys, kv_heads, dim);
  std::vector<float> out(q.size()), lse(batch * heads * queries), sinks(heads, 0.5F),
      additive(keys, 0.25F);
  const auto out_view = heads_view(out.data(), batch, queries, heads, dim);
  AttentionOptions<float> options{.causal = Causal::BottomRight};
  options.additive = {additive.data(), 1, 1, 1, keys};
  options.sinks = sinks;
  const posenc::LseView<float> lse_view{lse.data(), batch, heads, queries};
  const Index of_q = batch * queries * heads * dim, of_k = batch * keys * kv_heads * dim;
  const std::vector<float> nothing(static_cast<std::size_t>(of_q + 2 * of_k + keys + heads), 7.0F);
  Eigen::ThreadPool threads(3);
  const Eigen::ThreadPoolDevice device(&threads, 3);

  const auto check = [&](const std::string& name, const auto& bias) {
    posenc::attention(in, kv, kv, out_view, options, bias, {.lse = lse_view});
    const auto call = [&](std::vector<float>& all, const auto&... on) {
      const posenc::AttentionGradients<float> gradients{
          heads_view(all.data(), batch, queries, heads, dim),
          heads_view(all.data() + of_q, batch, keys, kv_heads, dim),
          heads_view(all.data() + of_q + of_k, batch, keys, kv_heads, dim),
          {all.data() + of_q + 2 * of_k, 1, 1, 1, keys},
          std::span(all).last(heads)};
      if constexpr (requires { bias.zero_gradient(); }) {
        auto of_bias = bias.zero_gradient();
        posenc::attention_backward(in, kv, kv, out_view, lse_view, in, gradients, options, bias,
                                   of_bias, nullptr, on...);
      } else {
        posenc::attention_backward(in, kv, kv, out_view, lse_view, in, gradients, options, bias, {},
                                   nullptr, on...);
      }
    };
    CHECK(check_calls(name, nothing, [&](std::vector<float>& all) { call(all); }) > 0);
    CHECK(check_calls(name + " on a pool", nothing,
                      [&](std::vector<float>& all) { call(all, WatchedDevice{device}); }) > 0);
  };
  check("no bias", posenc::NoBias{});
  check("ALiBi", posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal}));
  check("KERPLE",
        posenc::Kerple(
            {.form = posenc::KerpleForm::Power, .r1 = {1, 2, 1, 2}, .r2 = {1, 0.5, 1, 0.5}}));
  check("FIRE", posenc::Fire({.c = 1,
                              .threshold = 3,
                              .hidden_weight = {1, -1},
                              .hidden_bias = {0, 0.5},
                              .output_weight = {1, 2, 3, 4, 5, 6, 7, 8},
                              .output_bias = {0, 1, 2, 3}}));
  const auto table = numbers(32 * heads, 3);
  const posenc::MatrixView<const float> view{table.data(), 32, heads};
  check("T5", posenc::T5Bias<float>(view, {.direction = posenc::T5Direction::Causal}));
  posenc::ForgetGates gates(batch, heads);
  gates.append({0, 1}, tokens_view(k.data(), batch, keys, heads));
  const std::vector<Index> sequences{1, 0};
  check("gates", posenc::ForgettingBias(gates, sequences));
  CHECK(failing_memory::watched_allocations() == 0);
}

}  // namespace backward_without_memory_test
