// SPDX-License-Identifier: MIT
// Prints numbers of the library for fixed inputs, one per line after its name. Another target must
// print the numbers of this machine. Needs no Eigen, no files and no exceptions.
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/core/config.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/rotary/rope.hpp>

#include <cstddef>
#include <cstdio>
#include <type_traits>
#include <vector>

namespace {

using posenc::Index;

constexpr Index seq = 5, dim = 16;
constexpr Index far = 1'000'000'007;  // a position beyond the accuracy of float angles

template <class T>
void show(const char* name, const std::vector<T>& values) {
  for (std::size_t n = 0; n < values.size(); ++n) {
    std::printf("%s[%zu] %.9g\n", name, n, static_cast<double>(values[n]));
  }
}

std::vector<float> numbers(Index count, Index seed) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (Index n = 0; n < count; ++n) {
    x[static_cast<std::size_t>(n)] =
        static_cast<float>((n * n + 7 * n * seed + seed) % 101) / 50 - 1;
  }
  return x;
}

template <class T>
posenc::HeadsView<T> heads(std::vector<std::remove_const_t<T>>& x, Index count) {
  return {.data = x.data(), .batch = 1, .seq = seq, .heads = count, .dim = dim};
}

template <class Pairing, class Rule>
void rotate(const char* name, const Rule& rule) {
  const posenc::Rope<Pairing> rope(rule);
  auto x = numbers(seq * 2 * dim, 1);
  rope.rotate(heads<float>(x, 2), posenc::Positions::range(far, seq));
  show(name, x);
  const auto table = rope.template table<float>(posenc::Positions::range(3, seq));
  table.rotate(heads<float>(x, 2));
  show(name, x);
}

/// Prints the rounding error of position * frequency. It is wrong first if a compiler fuses
/// operations that must not be fused, or lacks fma.
void exact_products() {
  std::vector<double> cos(8), sin(8), rest;
  for (const double position : {1.0, -3.25, 1e6 + 1, 1e9 + 7, 1e12 + 39, 1e15 + 37}) {
    const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = dim, .base = 10000});
    posenc::detail::oscillator_of(rope).cos_sin_row(position, 0, 8, 1.0, cos.data(), sin.data());
    show("cos", cos);
    show("sin", sin);
  }
  for (const double x : {0.1, 1e100 / 3, -7e-5 / 9}) {
    const posenc::detail::DoubleDouble product = posenc::detail::two_product(x, x / 7);
    rest.push_back(product.lo / product.hi * 0x1p53);
  }
  show("two_product", rest);
}

void attend() {
  constexpr Index query_heads = 4, key_heads = 2;
  auto q = numbers(seq * query_heads * dim, 2), k = numbers(seq * key_heads * dim, 3),
       v = numbers(seq * key_heads * dim, 4), grad_out = numbers(seq * query_heads * dim, 5);
  auto out = q, grad_q = q, grad_k = k, grad_v = v;
  std::vector<float> lse(seq * query_heads);
  const auto q_view = heads<const float>(q, query_heads), k_view = heads<const float>(k, key_heads),
             v_view = heads<const float>(v, key_heads);
  const posenc::Alibi bias({.heads = query_heads, .form = posenc::AlibiForm::Symmetric});
  const posenc::AttentionOptions<float> options{.causal = posenc::Causal::BottomRight};
  const posenc::LseView<float> lse_view{
      .data = lse.data(), .batch = 1, .heads = query_heads, .queries = seq};
  posenc::attention<float>(q_view, k_view, v_view, heads<float>(out, query_heads), options, bias,
                           {.lse = lse_view});
  posenc::attention_backward<float>(q_view, k_view, v_view, heads<const float>(out, query_heads),
                                    lse_view, heads<const float>(grad_out, query_heads),
                                    {.q = heads<float>(grad_q, query_heads),
                                     .k = heads<float>(grad_k, key_heads),
                                     .v = heads<float>(grad_v, key_heads)},
                                    options, bias);
  show("attention", out);
  show("log-sum-exp", lse);
  show("gradient of q", grad_q);
  show("gradient of k", grad_k);
  show("gradient of v", grad_v);
}

void embed() {
  std::vector<float> x(seq * dim);
  const posenc::EmbeddingsView<float> view{.data = x.data(), .batch = 1, .seq = seq, .dim = dim};
  posenc::Sinusoidal({.model_dim = dim, .layout = posenc::SinusoidalLayout::Concatenated})
      .write_to(view, posenc::Positions::range(far, seq));
  show("sinusoidal", x);
}

}  // namespace

int main() {
  std::fprintf(stderr, "fma %d\n", POSENC_HAS_FMA);
  const posenc::Unscaled plain{.rotary_dim = dim, .base = 10000};
  rotate<posenc::HalfRotate>("half", plain);
  rotate<posenc::Interleaved>("interleaved", plain);
  rotate<posenc::HalfRotate>(
      "YaRN", posenc::YarnScaling{
                  .rotary_dim = dim, .base = 10000, .factor = 4, .original_max_position = 4096});
  exact_products();
  embed();
  attend();
}
