// SPDX-License-Identifier: MIT
// Tests invalid input of attention_backward(): type and message of each error, and that nothing is
// written before it.
#include "attention_case.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/attention/attention_backward.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/forget_gradient.hpp>
#include <posenc/bias/forgetting.hpp>
#include <posenc/bias/kerple.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace attention_backward_errors_test {

using posenc::Causal;
using posenc::ConfigError;
using posenc::HeadsView;
using posenc::Index;
using posenc::ShapeError;
using support::message_of;

namespace {

const std::string name = "posenc::attention_backward: ";

/// Valid call with a bias, a mask and sinks. A test then makes it invalid.
struct Call {
  std::vector<float> q, k, v, out, grad_out, mask, sinks, lse;
  std::vector<float> of_q, of_k, of_v, of_mask, of_sinks;
  HeadsView<const float> q_view, k_view, v_view, out_view, grad_out_view;
  posenc::LseView<const float> lse_view;
  posenc::AttentionGradients<float> gradients;
  posenc::AttentionOptions<float> options;
  posenc::Alibi bias{{.heads = 4, .form = posenc::AlibiForm::Symmetric}};
  std::vector<double> of_slopes{7, 7, 7, 7};

  Call() {
    for (auto* x : {&q, &k, &v, &out, &grad_out, &mask, &sinks, &lse}) x->assign(256, 0.5F);
    for (auto* x : {&of_q, &of_k, &of_v, &of_mask, &of_sinks}) x->assign(256, 7.0F);
    q_view = {q.data(), 2, 3, 4, 8};
    k_view = {k.data(), 2, 5, 2, 8};
    v_view = {v.data(), 2, 5, 2, 6};
    out_view = {out.data(), 2, 3, 4, 6};
    grad_out_view = {grad_out.data(), 2, 3, 4, 6};
    gradients = {{of_q.data(), 2, 3, 4, 8},
                 {of_k.data(), 2, 5, 2, 8},
                 {of_v.data(), 2, 5, 2, 6},
                 {of_mask.data(), 1, 4, 3, 5},
                 std::span(of_sinks).first(4)};
    options.causal = Causal::BottomRight;
    options.additive = {mask.data(), 1, 4, 3, 5};
    options.sinks = std::span<const float>(sinks).first(4);
    lse_view = {lse.data(), 2, 4, 3};
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void run() {
    posenc::attention_backward(q_view, k_view, v_view, out_view, lse_view, grad_out_view, gradients,
                               options, bias, of_slopes);
  }
  bool written() const {
    const auto is_other = [](double x) { return x != 7; };
    return std::any_of(of_slopes.begin(), of_slopes.end(), is_other) ||
           std::any_of(of_q.begin(), of_q.end(), is_other) ||
           std::any_of(of_k.begin(), of_k.end(), is_other) ||
           std::any_of(of_v.begin(), of_v.end(), is_other) ||
           std::any_of(of_mask.begin(), of_mask.end(), is_other) ||
           std::any_of(of_sinks.begin(), of_sinks.end(), is_other);
  }
};

/// Returns the message of a call after it was made invalid.
template <class Error>
std::string error_of(const std::function<void(Call&)>& break_it) {
  Call call;
  break_it(call);
  std::string message = message_of<Error>([&] { call.run(); });
  if (call.written()) message.insert(0, "something was written; ");
  return message;
}

}  // namespace

TEST_CASE("attention_backward: needs the log-sum-exps of forward",
          "[attention][backward][errors]") {
  REQUIRE(error_of<ShapeError>([](Call&) {}) == "something was written; nothing was thrown");
  CHECK(error_of<ConfigError>([](Call& c) { c.lse_view = {}; }) ==
        name + "lse must have the log-sum-exps that attention() wrote");
  CHECK(error_of<ShapeError>([](Call& c) { c.lse_view.queries = 2; }) ==
        name + "lse [2, 4, 2] must be [2, 4, 3]");
}

TEST_CASE("attention_backward: rejects gradients of another shape than their tensors",
          "[attention][backward][errors]") {
  CHECK(error_of<ShapeError>([](Call& c) { c.out_view.dim = 5; }) ==
        name +
            "out [2, 3, 4, 5] must have the shape of q, but for the channels of v, [2, 3, 4, 6]");
  CHECK(error_of<ShapeError>([](Call& c) { c.grad_out_view.heads = 2; }) ==
        name + "grad_out [2, 3, 2, 6] must have the shape of out [2, 3, 4, 6]");
  CHECK(error_of<ShapeError>([](Call& c) { c.gradients.q.seq = 2; }) ==
        name + "gradients.q [2, 2, 4, 8] must have the shape of q [2, 3, 4, 8]");
  CHECK(error_of<ShapeError>([](Call& c) { c.gradients.k.heads = 4; }) ==
        name + "gradients.k [2, 5, 4, 8] must have the shape of k [2, 5, 2, 8]");
  CHECK(error_of<ShapeError>([](Call& c) { c.gradients.v.dim = 8; }) ==
        name + "gradients.v [2, 5, 2, 8] must have the shape of v [2, 5, 2, 6]");
  CHECK(error_of<ShapeError>([](Call& c) { c.gradients.sinks = c.gradients.sinks.first(3); }) ==
        name + "gradients.sinks must have as many numbers as options.sinks, 4, but have 3");
  CHECK(error_of<ShapeError>([](Call& c) { c.options.sinks = {}; }) ==
        name + "gradients.sinks must have as many numbers as options.sinks, 0, but have 4");
  CHECK(error_of<ShapeError>([](Call& c) { c.gradients.additive.heads = 1; }).find(name) == 0);
  CHECK(error_of<ShapeError>([](Call& c) { c.gradients.additive.keys = 1; }).find(name) == 0);
  CHECK(error_of<ShapeError>([](Call& c) { c.options.additive = {}; }) ==
        name + "gradients.additive [1, 4, 3, 5] needs options.additive, which has no data");
  for (const std::size_t count : std::vector<std::size_t>{0, 3, 5}) {
    CHECK(error_of<ShapeError>([=](Call& c) { c.of_slopes.resize(count, 7.0); }) ==
          name +
              "bias_gradient must be the bias's zero_gradient(), of 4 numbers, but "
              "has " +
              std::to_string(count));
  }
}

TEST_CASE("attention_backward: rejects gradients of biases before anything is written",
          "[attention][backward][errors]") {
  Call call;
  const posenc::Kerple kerple(
      {.form = posenc::KerpleForm::Power, .r1 = {1, 2, 1, 2}, .r2 = {1, 1, 1, 1}});
  posenc::KerpleGradient of_kerple{{7, 7, 7, 7}, {7, 7, 7}};
  const auto run = [&](const auto& bias, auto& gradient) {
    return message_of<ShapeError>([&] {
      posenc::attention_backward(call.q_view, call.k_view, call.v_view, call.out_view,
                                 call.lse_view, call.grad_out_view, call.gradients, call.options,
                                 bias, gradient);
    });
  };
  CHECK(run(kerple, of_kerple) ==
        "posenc::KerpleGradient: the gradient to add must have 4 r1 and 3 r2 but has 4 and 4");
  const std::vector<float> logits(40, 1.0F);
  posenc::ForgetGates gates(2, 4);
  gates.append({0, 1}, posenc::EmbeddingsView<const float>{logits.data(), 2, 5, 4});
  const std::vector<Index> sequences{0, 1};
  posenc::ForgetGradient of_gates(4, {5, 4});
  CHECK(run(posenc::ForgettingBias(gates, sequences), of_gates) ==
        "posenc::ForgetGradient: the gradient to add must have 4 heads and the tokens [5, 4] but "
        "has 4 and "
        "[5, 5]");
  CHECK_FALSE(call.written());
}

TEST_CASE("attention_backward: rejects gradients that share memory",
          "[attention][backward][errors]") {
  const auto check = [](const char* of, const std::function<void(Call&)>& break_it) {
    const std::string message = error_of<ShapeError>(break_it);
    CAPTURE(of, message);
    CHECK(message.find(name) == 0);
    CHECK(message.find(" is an output, so its elements must not share memory") != message.npos);
    CHECK(message.find(of) != message.npos);
  };
  check("gradients.q", [](Call& c) { c.gradients.q.seq_stride = 0; });
  check("gradients.k", [](Call& c) { c.gradients.k.head_stride = 0; });
  check("gradients.v", [](Call& c) { c.gradients.v.batch_stride = 0; });
  check("additive", [](Call& c) { c.gradients.additive.key_stride = 0; });
  check("additive", [](Call& c) { c.gradients.additive.head_stride = 0; });
}

TEST_CASE("attention_backward: rejects what attention rejects", "[attention][backward][errors]") {
  CHECK(error_of<ConfigError>([](Call& c) { c.options.causal = Causal::Unspecified; }).find(name) ==
        0);
  CHECK(error_of<ShapeError>([](Call& c) { c.k_view.dim = 7; }) ==
        name + "k [2, 5, 2, 7] must have the batch and head_dim of q [2, 3, 4, 8]");
  CHECK(error_of<ShapeError>([](Call& c) { c.q_view.seq = -1; }).find(name) == 0);
  CHECK(error_of<ConfigError>([](Call& c) {
          c.options.scale = std::numeric_limits<double>::infinity();
        }) == name + "scale must be finite but is inf");
  CHECK(error_of<ConfigError>([](Call& c) { c.options.softcap = 2; }) ==
        name + "softcap (2) and softcap_order must be set together");
  CHECK(error_of<ShapeError>([](Call& c) { c.options.additive.queries = 2; }) ==
        name + "additive [1, 4, 2, 5] must broadcast to [2, 4, 3, 5]");
  CHECK(error_of<ShapeError>([](Call& c) { c.gradients.additive.queries = 2; }) ==
        name +
            "gradients.additive [1, 4, 2, 5] must have the shape of options.additive [1, 4, 3, "
            "5]");
  const std::vector<Index> one{5};
  CHECK(error_of<ShapeError>([&](Call& c) { c.options.key_lengths = one; }) ==
        name + "key_lengths must have one entry for each of the 2 batch rows but has 1");
  CHECK(error_of<ShapeError>([](Call& c) {
          c.bias = posenc::Alibi({.heads = 3, .form = posenc::AlibiForm::Symmetric});
        }) == name + "the bias is for 3 heads but q has 4");
  CHECK(error_of<ConfigError>([](Call& c) { c.options.causal = Causal::No; }).find(name) ==
        0);  // the bias needs the alignment of the queries
}

TEST_CASE("attention_backward: empty tensors are legal", "[attention][backward]") {
  for (int empty = 0; empty < 4; ++empty) {
    CAPTURE(empty);
    Call call;
    call.options.additive = {};
    call.gradients.additive = {};
    const Index batch = empty == 0 ? 0 : 2, queries = empty == 1 ? 0 : 3, keys = empty == 2 ? 0 : 5,
                channels = empty == 3 ? 0 : 6;
    for (auto* x : {&call.q_view, &call.out_view, &call.grad_out_view}) {
      *x = {x->data, batch, queries, 4, x == &call.q_view ? 8 : channels};
    }
    call.k_view = {call.k.data(), batch, keys, 2, 8};
    call.v_view = {call.v.data(), batch, keys, 2, channels};
    call.gradients.q = {call.of_q.data(), batch, queries, 4, 8};
    call.gradients.k = {call.of_k.data(), batch, keys, 2, 8};
    call.gradients.v = {call.of_v.data(), batch, keys, 2, channels};
    call.lse_view = {call.lse.data(), batch, 4, queries};
    std::fill(call.lse.begin(), call.lse.end(), 0.0F);
    CHECK(message_of<ShapeError>([&] { call.run(); }) == "nothing was thrown");
    // No input affects any output, so all gradients are 0.
    for (Index n = 0; n < batch * queries * 4 * 8; ++n) {
      CHECK(call.of_q[static_cast<std::size_t>(n)] == 0);
    }
    for (Index n = 0; n < batch * keys * 2 * 8; ++n) {
      CHECK(call.of_k[static_cast<std::size_t>(n)] == 0);
    }
    for (Index n = 0; n < batch * keys * 2 * channels; ++n) {
      CHECK(call.of_v[static_cast<std::size_t>(n)] == 0);
    }
    CHECK(call.of_slopes == std::vector<double>{7, 7, 7, 7});
  }
}

TEST_CASE("attention_backward: keys that no query head reads have gradients of 0",
          "[attention][backward]") {
  Call call;
  for (auto* x : {&call.q_view, &call.out_view, &call.grad_out_view}) x->heads = 0;
  call.gradients.q.heads = 0;
  call.gradients.additive = {};
  call.gradients.sinks = {};
  call.options.additive = {};
  call.options.sinks = {};
  call.lse_view = {};
  posenc::attention_backward(call.q_view, call.k_view, call.v_view, call.out_view, call.lse_view,
                             call.grad_out_view, call.gradients, call.options);
  const auto zeros = [](const std::vector<float>& x) {
    return std::count(x.begin(), x.end(), 0.0F);
  };
  CHECK(zeros(call.of_k) == 2 * 5 * 2 * 8);
  CHECK(zeros(call.of_v) == 2 * 5 * 2 * 6);
  CHECK(zeros(call.of_q) == 0);
}

}  // namespace attention_backward_errors_test
