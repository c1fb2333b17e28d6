// SPDX-License-Identifier: MIT
// Contents of a tape, gradients that backward() adds to or omits, and errors of both.
#include "module_gradients.hpp"
#include "support/allocations.hpp"
#include "support/catch.hpp"
#include "support/throws.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace multi_head_tape_test {

using module_test::Embeddings;
using module_test::random_embeddings;
using module_test::same_bits;
using posenc::bsd;
using posenc::Causal;
using posenc::ConfigError;
using posenc::Index;
using posenc::MultiHeadTape;
using posenc::Positions;
using posenc::ShapeError;
using support::message_of;

namespace {

constexpr Index batch = 2, seq = 5, dim = 8;

template <class T>
using Module = posenc::MultiHeadAttention<T, posenc::Rope<posenc::HalfRotate>, posenc::Alibi>;

template <class T>
Module<T> make_module(Index heads = 4) {
  using Rope = posenc::Rope<posenc::HalfRotate>;
  Module<T> module({.model_dim = dim, .heads = heads, .kv_heads = 2, .head_dim = 4},
                   Rope(posenc::Frequencies::from_inv_freq(std::vector{1.0, 0.25})),
                   posenc::Alibi({.heads = heads, .form = posenc::AlibiForm::Causal}));
  module.randomize(1);
  return module;
}

template <class T>
struct Step {
  Module<T> module = make_module<T>();
  Positions positions = Positions::range(0, seq);
  support::Random random{1};
  Embeddings<T> x = random_embeddings<T>(random, batch, seq, dim);
  Embeddings<T> grad_out = random_embeddings<T>(random, batch, seq, dim);
  posenc::AttentionOptions<T> options{.causal = Causal::TopLeft};

  Embeddings<T> forward(MultiHeadTape<T>& tape, Index first = 0, Index count = seq) const {
    Embeddings<T> out(batch, count, dim);
    module.forward(posenc::slice_seq(bsd(x), first, count), Positions::range(first, count),
                   bsd(out), tape, options);
    return out;
  }
  template <class Gradients>
  Embeddings<T> backward(const MultiHeadTape<T>& tape, Gradients& gradients,
                         Index count = seq) const {
    Embeddings<T> grad_x(batch, count, dim);
    module.backward(tape, posenc::slice_seq(bsd(grad_out), 0, count), bsd(grad_x), gradients);
    return grad_x;
  }
};

/// Returns all numbers of the gradients in one vector.
template <class Gradients>
auto numbers_of(const Gradients& g) {
  std::vector<double> all(g.bias.begin(), g.bias.end());
  all.insert(all.end(), g.rotary.begin(), g.rotary.end());
  for (const auto* layer :
       {&g.query_projection, &g.key_projection, &g.value_projection, &g.output_projection}) {
    for (const auto* matrix : {&layer->weight, &layer->bias}) {
      all.insert(all.end(), matrix->data(), matrix->data() + matrix->size());
    }
  }
  return all;
}

template <class T>
auto ask_for_all(const Module<T>& module) {
  auto gradients = module.zero_gradients();
  gradients.rotary = module.rotary().zero_frequency_gradient();
  return gradients;
}

}  // namespace

TEMPLATE_TEST_CASE("MultiHeadTape: a tape changes no bit of a module's output",
                   "[mha][backward][tape]", float, double) {
  using T = TestType;
  Step<T> step;
  Embeddings<T> want(batch, seq, dim), lse(batch, 4, seq), with_lse(batch, 4, seq);
  step.module.forward(bsd(step.x), step.positions, bsd(want), step.options);
  MultiHeadTape<T> tape;
  CHECK_FALSE(tape.holds_pass());
  CHECK(tape.bytes() == 0);
  CHECK(same_bits(step.forward(tape), want));
  CHECK(tape.holds_pass());
  // Documented memory: x, q, k, v, outputs and log-sum-exps of the heads, and a cache line for
  // each.
  const auto numbers = static_cast<std::size_t>(batch * seq * (dim + 4 * (4 + 4 + 1) + 2 * 8));
  CHECK(tape.bytes() >= numbers * sizeof(T));
  CHECK(tape.bytes() <= numbers * sizeof(T) + 6 * 64);
  auto gradients = ask_for_all(step.module), again = gradients;
  const auto grad_x = step.backward(tape, gradients);

  // Log-sum-exps and weights are also written to the caller's memory, and out may be x.
  Embeddings<T> aliased = step.x;
  std::vector<T> weights(static_cast<std::size_t>(batch * 4 * seq * seq), T{7});
  posenc::MultiHeadMemory<T> memory{.lse = {lse.data(), batch, 4, seq},
                                    .weights = {weights.data(), batch, 4, seq, seq}};
  step.module.forward(bsd(step.x), step.positions, bsd(want), step.options, memory);
  memory.lse.data = with_lse.data();
  step.module.forward(bsd(std::as_const(aliased)), step.positions, bsd(aliased), tape, step.options,
                      memory);
  CHECK(same_bits(aliased, want));
  CHECK(same_bits(lse, with_lse));
  lse.setZero();
  with_lse.setZero();
  std::fill(weights.begin(), weights.end(), T{7});
  CHECK(same_bits(step.backward(tape, again), grad_x));
  CHECK(numbers_of(again) == numbers_of(gradients));
  CHECK(std::count(weights.begin(), weights.end(), T{7}) == std::ssize(weights));
}

TEST_CASE("MultiHeadTape: gradients accumulate, from tapes that are reused and moved",
          "[mha][backward][tape]") {
  const Step<double> step;
  MultiHeadTape<double> tape;
  (void)step.forward(tape);
  const auto bytes = tape.bytes();
  auto once = ask_for_all(step.module), twice = once;
  const auto grad_x = step.backward(tape, once);
  CHECK(same_bits(step.backward(tape, twice), grad_x));
  // After a shorter pass, and from another address.
  (void)step.forward(tape, 1, 3);
  auto part = step.module.zero_gradients(), fresh = part;
  MultiHeadTape<double> other;
  (void)step.forward(other, 1, 3);
  CHECK(same_bits(step.backward(tape, part, 3), step.backward(other, fresh, 3)));
  CHECK(numbers_of(part) == numbers_of(fresh));
  CHECK(tape.bytes() == bytes);
  (void)step.forward(tape);
  const MultiHeadTape<double> moved = std::move(tape);
  CHECK_FALSE(tape.holds_pass());  // NOLINT: a moved-from tape holds none
  CHECK(same_bits(step.backward(moved, twice), grad_x));
  const auto a = numbers_of(once), b = numbers_of(twice);
  REQUIRE(a.size() == b.size());
  for (std::size_t n = 0; n < a.size(); ++n) CHECK(b[n] == Approx(2 * a[n]).margin(1e-13));
}

TEST_CASE("MultiHeadTape: gradients without data are omitted from a module's backward pass",
          "[mha][backward]") {
  const Step<double> step;
  MultiHeadTape<double> tape;
  (void)step.forward(tape);
  auto all = ask_for_all(step.module), some = step.module.zero_gradients();
  some.key_projection = {};
  some.output_projection = {};
  const auto grad_x = step.backward(tape, all);
  CHECK(same_bits(step.backward(tape, some), grad_x));
  CHECK(some.rotary.empty());
  CHECK(some.key_projection.parameter_count() == 0);
  CHECK(some.output_projection.parameter_count() == 0);
  CHECK(some.query_projection.weight == all.query_projection.weight);
  CHECK(some.bias == all.bias);
  auto of_parameters = ask_for_all(step.module);
  step.module.backward(tape, bsd(step.grad_out), {}, of_parameters);
  CHECK(numbers_of(of_parameters) == numbers_of(all));
  // grad_x in the memory of grad_out.
  auto aliased = step.grad_out;
  step.module.backward(tape, bsd(std::as_const(aliased)), bsd(aliased), some);
  CHECK(same_bits(aliased, grad_x));
  // If three inputs are one tensor, its gradient is the sum of three.
  Embeddings<double> out(batch, seq, dim), of_x(batch, seq, dim), of_keys(batch, seq, dim),
      of_values(batch, seq, dim);
  step.module.forward(bsd(step.x), step.positions, bsd(step.x), bsd(step.x), step.positions,
                      bsd(out), tape, step.options);
  auto gradients = ask_for_all(step.module);
  step.module.backward(tape, bsd(step.grad_out), bsd(of_x), bsd(of_keys), bsd(of_values),
                       gradients);
  CHECK(numbers_of(gradients) == numbers_of(all));
  of_x += of_keys;
  of_x += of_values;
  CHECK(same_bits(of_x, grad_x));
}

TEST_CASE("MultiHeadTape: the backward pass of a module rejects mismatches and writes nothing",
          "[mha][backward][errors]") {
  const Step<double> step;
  const auto& module = step.module;
  MultiHeadTape<double> tape, empty, cross;
  (void)step.forward(tape);
  Embeddings<double> grad_x(batch, seq, dim), narrow(batch, seq, 7), out(batch, seq, dim);
  module.forward(bsd(step.x), step.positions, bsd(step.x), bsd(step.x), step.positions, bsd(out),
                 cross, step.options);
  grad_x.setConstant(77);
  auto gradients = ask_for_all(module);
  const auto grad_out = bsd(step.grad_out);
  const std::string name = "posenc::MultiHeadAttention::backward: ";
  const auto config_error = [&](const MultiHeadTape<double>& from) {
    return message_of<ConfigError>(
        [&] { module.backward(from, grad_out, bsd(grad_x), gradients); });
  };
  CHECK(config_error(empty) ==
        name + "the tape must have a forward pass: call forward(..., tape) first");
  CHECK(config_error(cross).starts_with(
      name +
      "the tape is of cross attention, so backward() requires grad_keys_from and "
      "grad_values_from besides grad_x"));
  MultiHeadTape<double> refused_pass;
  (void)step.forward(refused_pass);
  CHECK_THROWS_AS(
      module.forward(bsd(step.x), step.positions, bsd(narrow), refused_pass, step.options),
      ShapeError);
  CHECK_FALSE(refused_pass.holds_pass());
  // A call that throws leaves no pass.
  CHECK_THROWS_AS(
      module.forward(bsd(step.x), Positions::grid(1, seq), bsd(out), cross, step.options),
      std::exception);
  CHECK_FALSE(cross.holds_pass());
  const auto shape_error = [&](auto&& call) { return message_of<ShapeError>(call); };
  CHECK(shape_error([&] {
          const auto other = make_module<double>(2);
          auto of_other = other.zero_gradients();
          other.backward(tape, grad_out, bsd(grad_x), of_other);
        }) == name +
                  "the tape is of another module: model_dim, key_input_dim, "
                  "value_input_dim, heads, kv_heads, head_dim and value_dim are [8, 8, 8, 4, 2, "
                  "4, 4], of this one [8, 8, 8, 2, 2, 4, 4]");
  CHECK(shape_error([&] { module.backward(tape, bsd(narrow), bsd(grad_x), gradients); }) ==
        name + "grad_out [2, 5, 7] must be [2, 5, 8]");
  CHECK(shape_error([&] { module.backward(tape, grad_out, bsd(narrow), gradients); }) ==
        name + "grad_x [2, 5, 7] must be [2, 5, 8]");
  CHECK(shape_error([&] {
          module.backward(tape, grad_out, bsd(grad_x), bsd(narrow), {}, gradients);
        }) == name + "grad_keys_from [2, 5, 7] must be [2, 5, 8]");
  auto overlapping = bsd(grad_x);
  overlapping.seq_stride = 7;
  CHECK(shape_error([&] {
          module.backward(tape, grad_out, overlapping, gradients);
        }).starts_with(name + "grad_x is an output, so its elements must not share memory"));
  const auto refused = [&](const auto& change) {
    auto wrong = ask_for_all(module);
    change(wrong);
    const auto message = shape_error([&] { module.backward(tape, grad_out, bsd(grad_x), wrong); });
    for (const double number : numbers_of(wrong)) CHECK(number == 0);
    return message;
  };
  CHECK(refused([](auto& g) {
          g.value_projection = {3, 8, true};
        })
            .starts_with(name + "gradients.value_projection must have the shapes of its layer, a "
                                "weight [8, 8] and a bias of 8, but has [8, 3] and 8"));
  CHECK(refused([](auto& g) { g.rotary.resize(3); }) ==
        name +
            "gradients.rotary must have a value for each of the 2 frequencies, or none, but "
            "has 3");
  CHECK(refused([](auto& g) { g.sinks.resize(4); }).starts_with(name + "gradients.sinks must"));
  CHECK(refused([](auto& g) { g.bias.resize(5); }).starts_with(name + "bias_gradient must"));
  posenc::MultiHeadAttention<double> plain({.model_dim = dim, .heads = 2});
  plain.forward(bsd(step.x), step.positions, bsd(out), tape, step.options);
  auto of_plain = plain.zero_gradients();
  of_plain.rotary.resize(1);
  CHECK(message_of<ConfigError>([&] { plain.backward(tape, grad_out, bsd(grad_x), of_plain); })
            .starts_with(name + "gradients.rotary must be empty: this rotary encoding has no "
                                "learnable frequencies"));
  for (const double number : numbers_of(gradients)) CHECK(number == 0);
  for (Index n = 0; n < grad_x.size(); ++n) CHECK(grad_x.data()[n] == 77);
}

TEST_CASE(
    "MultiHeadTape: the backward pass of a module rejects the gradient of another bias and writes "
    "nothing",
    "[mha][backward][errors]") {
  const auto check = [](const auto& bias, const std::string& message, const auto& spoil) {
    using Bias = std::remove_cvref_t<decltype(bias)>;
    posenc::MultiHeadAttention<double, posenc::NoRotation, Bias> module(
        {.model_dim = dim, .heads = 2}, {}, bias);
    module.randomize(1);
    support::Random random{1};
    const auto x = random_embeddings<double>(random, batch, seq, dim);
    Embeddings<double> out(batch, seq, dim), grad_x(batch, seq, dim);
    MultiHeadTape<double> tape;
    module.forward(bsd(x), Positions::range(0, seq), bsd(out), tape, {.causal = Causal::TopLeft});
    grad_x.setConstant(77);
    auto gradients = module.zero_gradients();
    spoil(gradients.bias);
    CHECK(message_of<ShapeError>([&] {
            module.backward(tape, bsd(std::as_const(out)), bsd(grad_x), gradients);
          }).starts_with(message));
    for (Index n = 0; n < grad_x.size(); ++n) CHECK(grad_x.data()[n] == 77);
    for (const auto* layer : {&gradients.query_projection, &gradients.key_projection,
                              &gradients.value_projection, &gradients.output_projection}) {
      for (Index n = 0; n < layer->weight.size(); ++n) CHECK(layer->weight.data()[n] == 0);
    }
  };
  const posenc::KerpleConfig kerple{
      .form = posenc::KerpleForm::Logarithmic, .r1 = {1, 2}, .r2 = {0.5, 1}};
  check(posenc::Kerple(kerple), "posenc::KerpleGradient: the gradient to add must have",
        [](auto& gradient) { gradient.r2.pop_back(); });
  const posenc::FireParameters fire{.c = 1,
                                    .threshold = 2,
                                    .hidden_weight = {1, -1},
                                    .hidden_bias = {0, 1},
                                    .output_weight = {1, 2, 3, 4},
                                    .output_bias = {0, 1}};
  check(posenc::Fire(fire),
        "posenc::FireParameters: the parameters to add must have the same shape",
        [](auto& gradient) { gradient.output_weight.resize(2); });
  const std::vector<double> table(32 * 2);
  const posenc::T5Bias t5(posenc::MatrixView<const double>{table.data(), 32, 2},
                          {.direction = posenc::T5Direction::Causal});
  check(t5, "posenc::TableGradient: the gradient to add must be [31, 2] but is [32, 2]",
        [](auto& gradient) { gradient = posenc::TableGradient(31, 2); });
}

TEST_CASE("MultiHeadTape: a forward pass with a reused tape allocates nothing",
          "[mha][backward][workspace]") {
  posenc::MultiHeadAttention<float> module({.model_dim = dim, .heads = 2});
  module.randomize(1);
  support::Random random(2);
  const auto x = random_embeddings<float>(random, batch, seq, dim);
  Embeddings<float> out(batch, seq, dim), grad_x(batch, seq, dim);
  const auto positions = Positions::range(0, seq);
  MultiHeadTape<float> tape;
  posenc::MultiHeadWorkspace workspace;
  auto gradients = module.zero_gradients();
  const auto forward = [&] {
    module.forward(bsd(x), positions, bsd(out), tape, {.causal = Causal::TopLeft},
                   {.workspace = &workspace});
  };
  const auto backward = [&] {
    module.backward(tape, bsd(std::as_const(out)), bsd(grad_x), gradients, &workspace);
  };
  forward();
  backward();
  const auto bytes = workspace.bytes() + tape.bytes();
  const auto before = support::allocations();
  forward();
  CHECK(support::allocations() == before);
  // attention_backward() allocates lists with an entry per thread or block.
  backward();
  CHECK(support::allocations() <= before + 4);
  CHECK(workspace.bytes() + tape.bytes() == bytes);
}

}  // namespace multi_head_tape_test
