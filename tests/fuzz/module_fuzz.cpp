// SPDX-License-Identifier: MIT
// Fuzzer of MultiHeadAttention. Bytes choose its configuration, rotation and tokens; the plain
// reference judges the output, and a module that decodes from a cache must agree with it.
#include "nn/module_case.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/frequency/frequencies.hpp>
#include <posenc/kv/kv_cache.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/positions.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <utility>
#include <vector>

namespace {

using posenc::bsd;
using posenc::Index;
using posenc::Positions;
using Rope = posenc::Rope<posenc::HalfRotate>;

constexpr double frequency = 0.37;

posenc::MultiHeadAttentionConfig draw_config(support::Random& random) {
  posenc::MultiHeadAttentionConfig config;
  config.kv_heads = random.integer(1, 3);
  config.heads = config.kv_heads * random.integer(1, 3);
  config.model_dim = random.integer(1, 20);
  config.head_dim = 2 * random.integer(1, 6);
  config.value_dim = random.integer(1, 9);
  config.projection_bias = random.integer(0, 1) == 0;
  return config;
}

template <class T>
bool equals_reference(support::Random& random) {
  using Embeddings = module_test::Embeddings<T>;
  const auto config = draw_config(random);
  const Index first = random.integer(-5, 9), seq = random.integer(1, 9);
  const auto half_dim = static_cast<std::size_t>(config.head_dim / 2);
  const Rope rope(posenc::Frequencies::from_inv_freq(std::vector<double>(half_dim, frequency)));
  posenc::MultiHeadAttention<T, Rope> module(config, rope);
  module_test::set_exact(module, static_cast<std::uint64_t>(random.integer(0, 255)));
  const auto x = module_test::random_embeddings<T>(random, 1, seq, config.model_dim);
  const posenc::AttentionOptions<T> options{.causal = posenc::Causal::BottomRight};
  Embeddings out(1, seq, config.model_dim);
  module.forward(bsd(x), Positions::range(first, seq), bsd(out), options);

  auto reference = module_test::reference_of(module);
  const std::vector<long double> inv_freq(half_dim, static_cast<long double>(frequency));
  const reference::RopeRule half{reference::Pairing::HalfRotate};
  reference.rotate_query = reference.rotate_key =
      module_test::rotate_from(static_cast<double>(first), inv_freq, half);
  const double scale = 1 / std::sqrt(static_cast<double>(config.head_dim));
  const auto rule = [&](Index) {
    reference::AttentionRule causal;
    causal.scale = scale;
    causal.allowed = [](Index i, Index j) { return j <= i; };
    return causal;
  };
  if (!(module_test::worst_error(reference, x, x, x, out, rule) <= 1)) return false;

  // The same tokens from a cache, in two parts.
  const Index cut = random.integer(0, seq);
  posenc::KvCache<T> cache({.kv_heads = config.kv_heads,
                            .head_dim = config.head_dim,
                            .value_dim = config.value_dim,
                            .capacity = seq});
  Embeddings decoded(1, seq, config.model_dim);
  for (const auto& [begin, count] : {std::pair{Index{0}, cut}, std::pair{cut, seq - cut}}) {
    module.forward(posenc::slice_seq(bsd(x), begin, count), Positions::range(first + begin, count),
                   cache, {0}, posenc::slice_seq(bsd(decoded), begin, count), options);
  }
  const auto tokens = module_test::matrix_of(x, 0);
  const double allowed = module_test::decode_tolerance<T>(reference, tokens, scale, 0);
  return support::max_abs_difference(module_test::matrix_of(decoded, 0).values,
                                     module_test::matrix_of(out, 0).values) <= allowed;
}

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): the name that libFuzzer calls
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  support::Random random(std::span(data, size), 1);
  const bool right = random.integer(0, 1) == 0 ? equals_reference<float>(random)
                                               : equals_reference<double>(random);
  if (!right) {
    std::fprintf(stderr, "the module differs from the reference\n");
    std::abort();
  }
  return 0;
}
