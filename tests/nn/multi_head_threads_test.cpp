// SPDX-License-Identifier: MIT
// MultiHeadAttention on a device is bit-identical to the calling thread.
#define EIGEN_USE_THREADS
#include "module_case.hpp"
#include "support/catch.hpp"
#include "support/devices.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/any_rope.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/xpos.hpp>

#include <unsupported/Eigen/CXX11/Tensor>

#include <type_traits>
#include <vector>

namespace multi_head_threads_test {

using module_test::Embeddings;
using posenc::bsd;
using posenc::Causal;
using posenc::Index;
using posenc::Positions;

namespace {

/// Projection that takes no device.
struct OneThread : posenc::FixedOrderLinear<float> {
  using posenc::FixedOrderLinear<float>::FixedOrderLinear;
  void apply(posenc::EmbeddingsView<const float> x, posenc::EmbeddingsView<float> out) const {
    posenc::FixedOrderLinear<float>::apply(x, out);
  }
};

template <class Module>
void check_devices(const Module& module, Index dim) {
  constexpr Index batch = 2, seq = 70;
  support::Random random(1);
  const auto x = module_test::random_embeddings<float>(random, batch, seq, dim);
  const auto positions = Positions::range(0, seq);
  const std::vector<Index> sequences{1, 0};
  const posenc::AttentionOptions<float> options{.causal = Causal::BottomRight};
  const auto run = [&](const auto&... device) {
    Embeddings<float> self(batch, seq, dim), cross(batch, seq, dim), cached(batch, seq, dim);
    posenc::KvCache<float> cache(
        {.sequences = 2, .kv_heads = 2, .head_dim = dim / 4, .capacity = seq});
    module.forward(bsd(x), positions, bsd(self), options, {}, device...);
    module.forward(bsd(x), positions, bsd(x), bsd(x), positions, bsd(cross), options, {},
                   device...);
    module.forward(bsd(x), positions, cache, sequences, bsd(cached), options, {}, device...);
    return std::vector{self, cross, cached};
  };
  const auto want = run();
  const auto check = [&](const auto& device) {
    const auto got = run(device);
    for (std::size_t n = 0; n < 3; ++n) CHECK(module_test::same_bits(got[n], want[n]));
  };
  check(Eigen::DefaultDevice());
  for (const int threads : {1, 2, 3}) {
    Eigen::ThreadPool pool(threads);
    check(Eigen::ThreadPoolDevice(&pool, threads));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("MultiHeadAttention: is bit-identical on every device", "[mha][threads]",
                   posenc::Linear<float>, posenc::FixedOrderLinear<float>, OneThread) {
  using Rope = posenc::Rope<posenc::Interleaved>;
  // Enough outputs to be distributed over several threads.
  constexpr Index dim = 272;
  posenc::MultiHeadAttention<float, Rope, posenc::Alibi, TestType> module(
      {.model_dim = dim, .heads = 4, .kv_heads = 2},
      Rope(posenc::Frequencies::from_inv_freq(std::vector{1.0, 0.5, 0.1})),
      posenc::Alibi({.heads = 4, .form = posenc::AlibiForm::Causal}));
  module.randomize(1);
  check_devices(module, dim);
}

TEST_CASE("Linear: bit-identical on every device", "[linear][backward][threads]") {
  constexpr Index seq = 64, dim = 256;  // enough work for two threads
  posenc::Linear<float> layer(dim, dim, true);
  layer.randomize(1);
  support::Random random(1);
  const auto x = module_test::random_embeddings<float>(random, 1, seq, dim);
  const auto grad_out = module_test::random_embeddings<float>(random, 1, seq, dim);
  support::check_same_on_all_devices([&](const auto&... device) {
    Embeddings<float> out(1, seq, dim), few(1, 8, dim), grad_x(1, seq, dim), few_grad_x(1, 8, dim);
    layer.apply(bsd(x), bsd(out), nullptr, device...);
    layer.apply(posenc::slice_seq(bsd(x), 0, 8), bsd(few), nullptr, device...);
    auto gradient = layer.zero_gradient();
    layer.backward(bsd(x), bsd(grad_out), bsd(grad_x), gradient, nullptr, device...);
    layer.backward(posenc::slice_seq(bsd(x), 0, 8), posenc::slice_seq(bsd(grad_out), 0, 8),
                   bsd(few_grad_x), gradient, nullptr, device...);
    support::Bytes bytes;
    bytes.add(out.data(), static_cast<std::size_t>(out.size()));
    bytes.add(few.data(), static_cast<std::size_t>(few.size()));
    bytes.add(grad_x.data(), static_cast<std::size_t>(grad_x.size()));
    bytes.add(few_grad_x.data(), static_cast<std::size_t>(few_grad_x.size()));
    bytes.add(gradient.weight.data(), static_cast<std::size_t>(gradient.weight.size()));
    bytes.add(gradient.bias.data(), static_cast<std::size_t>(gradient.bias.size()));
    return bytes;
  });
}

TEMPLATE_TEST_CASE("MultiHeadAttention: has the same gradients on every device",
                   "[mha][backward][threads]", posenc::Linear<float>,
                   posenc::FixedOrderLinear<float>) {
  using Rope = posenc::Rope<posenc::Interleaved>;
  constexpr Index batch = 2, seq = 70, dim = 24;
  posenc::MultiHeadAttention<float, Rope, posenc::Alibi, TestType> module(
      {.model_dim = dim, .heads = 4, .kv_heads = 2},
      Rope(posenc::Frequencies::from_inv_freq(std::vector{1.0, 0.5, 0.1})),
      posenc::Alibi({.heads = 4, .form = posenc::AlibiForm::Causal}));
  module.randomize(1);
  support::Random random(1);
  const auto x = module_test::random_embeddings<float>(random, batch, seq, dim);
  const auto grad_out = module_test::random_embeddings<float>(random, batch, seq, dim);
  const auto positions = Positions::range(0, seq);
  const auto run = [&](const auto&... device) {
    Embeddings<float> out(batch, seq, dim), grad_x(batch, seq, dim);
    posenc::MultiHeadTape<float> tape;
    auto gradients = module.zero_gradients();
    gradients.rotary = module.rotary().zero_frequency_gradient();
    module.forward(bsd(x), positions, bsd(out), tape, {.causal = Causal::TopLeft}, {}, device...);
    module.backward(tape, bsd(grad_out), bsd(grad_x), gradients, nullptr, device...);
    support::Bytes bytes;
    bytes.add(grad_x.data(), static_cast<std::size_t>(grad_x.size()));
    bytes.add(gradients.bias);
    bytes.add(gradients.rotary);
    for (const auto* layer : {&gradients.key_projection, &gradients.output_projection}) {
      bytes.add(layer->weight.data(), static_cast<std::size_t>(layer->weight.size()));
    }
    return bytes;
  };
  const auto want = run();
  CHECK((run(Eigen::DefaultDevice()) == want));
  for (const int threads : {1, 2, 3}) {
    Eigen::ThreadPool pool(threads);
    CHECK((run(Eigen::ThreadPoolDevice(&pool, threads)) == want));
  }
}

namespace {

/// Wraps a rope and counts the chunks of its work that run on a device.
template <class Rope>
struct Watched {
  Rope rope;
  Index* pieces;

  template <class T>
  void rotate_queries(posenc::HeadsView<T> q, const Positions& p) const {
    rope.rotate_queries(q, p);
  }
  template <class T>
  void rotate_keys(posenc::HeadsView<T> k, const Positions& p) const {
    rope.rotate_keys(k, p);
  }
  template <class T, class Device>
  requires requires(const Rope& r, const Device& d, posenc::HeadsView<T> q, const Positions& p) {
    r.rotate_queries(q, p, d);
  }
  void rotate_queries(posenc::HeadsView<T> q, const Positions& p, const Device&) const {
    rope.rotate_queries(q, p, support::CountingDevice{pieces});
  }
  template <class T, class Device>
  requires requires(const Rope& r, const Device& d, posenc::HeadsView<T> k, const Positions& p) {
    r.rotate_keys(k, p, d);
  }
  void rotate_keys(posenc::HeadsView<T> k, const Positions& p, const Device&) const {
    rope.rotate_keys(k, p, support::CountingDevice{pieces});
  }
  template <class T>
  void adjoint_queries(posenc::HeadsView<T> q, const Positions& p) const {
    rope.adjoint_queries(q, p);
  }
  template <class T>
  void adjoint_keys(posenc::HeadsView<T> k, const Positions& p) const {
    rope.adjoint_keys(k, p);
  }
  double softmax_scale_multiplier() const { return rope.softmax_scale_multiplier(); }
};

template <class Rope>
void check_rotates_on_the_device(const Rope& rope) {
  Index pieces = 0;
  posenc::MultiHeadAttention<float, Watched<Rope>> module({.model_dim = 24, .heads = 2},
                                                          Watched<Rope>{rope, &pieces});
  module.randomize(2);
  support::Random random(3);
  const auto x = module_test::random_embeddings<float>(random, 1, 9, 24);
  Embeddings<float> out(1, 9, 24);
  module.forward(bsd(x), Positions::range(0, 9), bsd(out), {.causal = Causal::TopLeft}, {},
                 Eigen::DefaultDevice());
  CHECK(pieces == 2 * 9);
}

}  // namespace

TEST_CASE("MultiHeadAttention: rotates on its device for every rope", "[mha][threads]") {
  const auto frequencies = posenc::Frequencies::from_inv_freq(std::vector{1.0, 0.5, 0.1});
  check_rotates_on_the_device(posenc::Rope<posenc::HalfRotate>(frequencies));
  check_rotates_on_the_device(posenc::AnyRope(posenc::PairingKind::Interleaved, frequencies));
  check_rotates_on_the_device(posenc::XPos<posenc::HalfRotate>(frequencies, {.scale_base = 512}));
  check_rotates_on_the_device(posenc::MixedRope<posenc::HalfRotate>(
      std::vector{1.0, 0.5, 0.2, 0.1}, {.axes = 1, .heads = 2, .rotary_dim = 4}));
}

TEST_CASE("MultiHeadAttention: a module with any rope is bit-identical on every device",
          "[mha][threads]") {
  constexpr Index dim = 272;
  posenc::MultiHeadAttention<float, posenc::AnyRope> module(
      {.model_dim = dim, .heads = 4, .kv_heads = 2},
      posenc::AnyRope(posenc::PairingKind::HalfRotate,
                      posenc::Frequencies::from_inv_freq(std::vector{1.0, 0.5, 0.1})));
  module.randomize(4);
  check_devices(module, dim);
}

}  // namespace multi_head_threads_test
