// SPDX-License-Identifier: MIT
// Multi-head module against its parts.
#include "cases.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/rotary/rope.hpp>

namespace {

using bench::Index, bench::Tensor4;
using Rope = posenc::Rope<posenc::HalfRotate>;
using Module = posenc::MultiHeadAttention<float, Rope>;
using Matrix = posenc::Linear<float>::Matrix;

/// Parts of forward(), with buffers that are kept: four of Eigen's products, the rotation of
/// queries and keys, and attention.
class Parts {
 public:
  Parts(const Module& module, Index seq)
      : module_(module),
        q_(heads(seq, module.config().heads)),
        k_(heads(seq, module.config().kv_heads)),
        v_(k_),
        y_(q_) {}

  void operator()(const Matrix& x, const posenc::Positions& positions, Matrix& out,
                  const bench::Options& options, posenc::AttentionWorkspace& workspace) {
    merged(q_).noalias() = x * weight_of(module_.query_projection).transpose();
    merged(k_).noalias() = x * weight_of(module_.key_projection).transpose();
    merged(v_).noalias() = x * weight_of(module_.value_projection).transpose();
    module_.rotary().rotate_all({posenc::bshd(q_), posenc::bshd(k_)}, positions);
    posenc::attention(posenc::bshd(q_), posenc::bshd(k_), posenc::bshd(v_), posenc::bshd(y_),
                      options, {}, {.workspace = &workspace});
    out.noalias() = merged(y_) * weight_of(module_.output_projection).transpose();
  }

 private:
  static Eigen::Map<const Matrix> weight_of(const posenc::Linear<float>& projection) {
    return {projection.weight.data(), projection.out_dim(), projection.in_dim()};
  }
  Tensor4 heads(Index seq, Index count) const {
    return Tensor4(1, seq, count, module_.config().head_dim);
  }
  static Eigen::Map<Matrix> merged(Tensor4& x) {
    return {x.data(), x.dimension(1), x.dimension(2) * x.dimension(3)};
  }

  const Module& module_;
  Tensor4 q_, k_, v_, y_;
};

void module_case(benchmark::State& state, Index seq) {
  constexpr Index width = 2048, heads = 16, kv_heads = 4, head_dim = width / heads;
  Module module(
      {.model_dim = width, .heads = heads, .kv_heads = kv_heads, .projection_bias = false},
      Rope(posenc::Unscaled{.rotary_dim = head_dim, .base = 500000}));
  std::uint64_t seed = 1;
  for (auto* projection : {&module.query_projection, &module.key_projection,
                           &module.value_projection, &module.output_projection}) {
    projection->randomize(seed++);
  }
  const Matrix x = Matrix::Random(seq, width);
  Matrix out(seq, width);
  const auto positions = posenc::Positions::range(0, seq);
  posenc::MultiHeadWorkspace workspace;
  posenc::AttentionWorkspace of_parts;
  const bench::Options options{.causal = posenc::Causal::BottomRight};
  Parts parts(module, seq);

  bench::Comparison comparison(state, [&] {
    module.forward(posenc::sd(x), positions, posenc::sd(out), options, {.workspace = &workspace});
  });
  comparison.beside("vs_parts", [&] { parts(x, positions, out, options, of_parts); });
  const double projections =
      2.0 * static_cast<double>(seq * width * (2 * heads + 2 * kv_heads) * head_dim);
  const bench::AttentionModel model{"", heads, kv_heads, head_dim};
  const double attention = bench::flop(model, bench::causal_work(seq, seq));
  bench::measure_attention(state, comparison, projections + attention, 0);
}

void add_module() {
  bench::add("attention/module/tokens_1", [](benchmark::State& state) { module_case(state, 1); });
  bench::add("attention/module/tokens_16", [](benchmark::State& state) { module_case(state, 16); });
  bench::add("attention/module/prefill_256",
             [](benchmark::State& state) { module_case(state, 256); });
}

const bool added = (add_module(), true);

}  // namespace
