// SPDX-License-Identifier: MIT
// Backward of attention over complete prompts, on one thread and on two.
#define EIGEN_USE_THREADS

#include "threads.hpp"
#include <posenc/attention/attention_backward.hpp>

#include <cmath>

namespace {

using bench::AttentionModel, bench::Index, bench::Tensor4;
using posenc::bshd;

/// Prompt with the output of attention() and the gradient of that output.
struct Gradients : bench::Tokens {
  Gradients(const AttentionModel& m, Index seq)
      : Tokens(m, seq, seq),
        grad_out(bench::random_tensor(seq, m.heads, m.head_dim)),
        grad_q(1, seq, m.heads, m.head_dim),
        grad_k(1, seq, m.kv_heads, m.head_dim),
        grad_v(1, seq, m.kv_heads, m.head_dim),
        lse(static_cast<std::size_t>(m.heads * seq)) {
    go_forward();
  }

  posenc::LseView<float> lse_view() {
    return {.data = lse.data(), .batch = 1, .heads = model.heads, .queries = queries()};
  }

  void go_forward() {
    posenc::attention(bshd(q), bshd(k), bshd(v), bshd(out), causal(), {},
                      {.lse = lse_view(), .workspace = &workspace});
  }
  template <class Device>
  void go_back(const Device& device) {
    posenc::attention_backward(
        bshd(q), bshd(k), bshd(v), bshd(out), lse_view(), bshd(grad_out),
        posenc::AttentionGradients<float>{.q = bshd(grad_q), .k = bshd(grad_k), .v = bshd(grad_v)},
        causal(), {}, {}, &workspace, device);
  }

  Tensor4 grad_out, grad_q, grad_k, grad_v;
  std::vector<float> lse;
};

/// Backward as written in Eigen: one head after the other, five products over all of its scores.
class NaiveBackward {
 public:
  void operator()(Gradients& x) {
    x.grad_k.setZero();
    x.grad_v.setZero();
    const Index group = x.model.heads / x.model.kv_heads, seq = x.queries();
    const float scale = 1 / std::sqrt(static_cast<float>(x.model.head_dim));
    for (Index h = 0; h < x.model.heads; ++h) {
      const auto q = rows(x.q, h), k = rows(x.k, h / group), v = rows(x.v, h / group),
                 out = rows(x.out, h), grad_out = rows(x.grad_out, h);
      p_.noalias() = q * k.transpose();
      for (Index i = 0; i < seq; ++i) {
        auto seen = p_.row(i).head(i + 1).array();
        seen = (scale * seen - x.lse[static_cast<std::size_t>(h * seq + i)]).exp();
        p_.row(i).tail(seq - i - 1).setZero();
      }
      rows(x.grad_v, h / group).noalias() += p_.transpose() * grad_out;
      grad_.noalias() = grad_out * v.transpose();
      grad_.colwise() -= (grad_out.array() * out.array()).rowwise().sum().matrix();
      grad_.array() *= scale * p_.array();
      rows(x.grad_q, h).noalias() = grad_ * k;
      rows(x.grad_k, h / group).noalias() += grad_.transpose() * q;
    }
  }

 private:
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  /// Returns head h as a matrix [seq, dim].
  static Eigen::Map<Matrix, 0, Eigen::OuterStride<>> rows(Tensor4& x, Index h) {
    const posenc::HeadsView<float> view = bshd(x);
    return {view.row(0, 0, h), view.seq, view.dim, Eigen::OuterStride<>(view.seq_stride)};
  }

  Matrix p_, grad_;
};

/// Measures backward, which has 2.5 times forward's operations: five products instead of two.
void measure(benchmark::State& state, bench::Comparison& comparison, const Gradients& x) {
  const double forward = bench::flop(x.model, bench::causal_work(x.queries(), x.keys()));
  bench::measure_attention(state, comparison, 2.5 * forward, 0);
  bench::tell_workspace(state, x);
}

void backward_case(benchmark::State& state, const AttentionModel& model, Index seq,
                   bool with_naive) {
  Gradients x(model, seq);
  const Eigen::DefaultDevice device;
  NaiveBackward naive;
  bench::Comparison comparison(state, [&] { x.go_back(device); });
  if (with_naive) comparison.faster_than("vs_naive", [&] { naive(x); });
  comparison.beside(
      "vs_forward", [&] { x.go_forward(); }, 2.5);
  measure(state, comparison, x);
}

void add_backward() {
  for (const AttentionModel& model : {bench::llama3_8b, bench::llama2_7b}) {
    const std::string name = std::string("attention/") + model.name + "/backward_";
    for (const Index seq : {Index{1024}, Index{4096}}) {
      if (seq == 4096 && model.kv_heads == model.heads) continue;  // same work: once is enough
      bench::add(name + std::to_string(seq),
                 [=](benchmark::State& state) { backward_case(state, model, seq, seq == 1024); });
    }
    bench::add(name + "1024/threads_2", [=](benchmark::State& state) {
      Gradients x(model, 1024);
      const Eigen::DefaultDevice one;
      bench::threads_case(
          state, x, [&] { x.go_back(one); },
          [&](const Eigen::ThreadPoolDevice& device) { x.go_back(device); });
    });
  }
}

const bool added = (add_backward(), true);

}  // namespace
