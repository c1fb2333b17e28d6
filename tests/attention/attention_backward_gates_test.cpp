// SPDX-License-Identifier: MIT
// Compares the gradient of the gates of forgetting attention by attention_backward() with the
// reference.
#define EIGEN_USE_THREADS
#include "backward_case.hpp"
#include "reference/forgetting.hpp"
#include "support/catch.hpp"
#include <posenc/attention/attention_backward.hpp>
#include <posenc/bias/forgetting.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace attention_backward_gates_test {

using attention_test::FixedCall;
using attention_test::Gradients;
using attention_test::Shape;
using posenc::Causal;
using posenc::EmbeddingsView;
using posenc::Index;

namespace {

std::size_t size(Index n) { return static_cast<std::size_t>(n); }

/// Queries and keys of one batch row that may see each other; query i is aligned with key i + keys
/// - queries.
struct Sequence {
  Index batch, first_query, queries, first_key, keys;
};

/// Causal call over sequences of a batch, or packed into one row, each with separate gates.
template <class T>
class GatedCall {
 public:
  FixedCall<T> call;
  std::vector<Sequence> sequences;
  std::vector<std::vector<double>> logits;  ///< per sequence, [keys, H]
  std::vector<std::vector<double>> of_logits;

  GatedCall(const Shape& shape, std::vector<Sequence> all)
      : call(shape, 1), sequences(std::move(all)), gates_(count(), shape.heads) {
    support::Random random(7);
    call.options.causal = Causal::BottomRight;
    for (Index n = 0; n < count(); ++n) {
      std::vector<double> z(size(sequences[size(n)].keys * shape.heads));
      for (double& logit : z) logit = 2 + random.normal();
      logits.push_back(z);
      // The order of sequences differs from that of the gates.
      names_.push_back(count() - 1 - n);
      gates_.append(names_.back(), logits_of(n));
      of_logits.emplace_back(z.size());
    }
  }

  template <class Device>
  Gradients<T> run(const Device& device) {
    const posenc::ForgettingBias bias(gates_, names_);
    Gradients<T> gradients(call.c.shape, call.options);
    const auto x = call.tensors(gradients.view());
    posenc::attention(x.q, x.k, x.v, x.out, call.options, bias, {.lse = x.lse}, device);
    auto gradient = bias.zero_gradient();
    posenc::attention_backward(x.q, x.k, x.v, x.out, x.lse, x.grad_out, x.gradients, call.options,
                               bias, gradient, nullptr, device);
    for (Index n = 0; n < count(); ++n) {
      auto& grad = of_logits[size(n)];
      const auto z = logits_of(n);
      gradient.logits(n, z, EmbeddingsView<double>{grad.data(), 1, z.seq, z.dim});
    }
    return gradients;
  }

  /// Returns the largest error of the logits' gradients, relative to the largest gradient.
  double worst_error() {
    double worst = 0, greatest = 0;
    for (Index n = 0; n < count(); ++n) {
      const Sequence& s = sequences[size(n)];
      const Index heads = call.c.shape.heads, group = heads / call.c.shape.kv_heads;
      for (Index h = 0; h < heads; ++h) {
        const auto want = of_log_gates(s, n, h, h / group);
        for (Index t = 0; t < s.keys; ++t) {
          const double z = logits[size(n)][size(t * heads + h)];
          const double of_logit = want[size(t)] / (1 + std::exp(z));
          greatest = std::max(greatest, std::abs(of_logit));
          worst =
              support::worse(worst, std::abs(of_logits[size(n)][size(t * heads + h)] - of_logit));
        }
      }
    }
    return worst / greatest;
  }

 private:
  Index count() const { return static_cast<Index>(sequences.size()); }
  EmbeddingsView<const double> logits_of(Index n) const {
    return {logits[size(n)].data(), 1, sequences[size(n)].keys, call.c.shape.heads};
  }

  /// Returns the gradients of ln f of all tokens. Token t contributes to the scores of keys before
  /// t and queries from t on.
  std::vector<double> of_log_gates(const Sequence& s, Index n, Index h, Index kv) {
    const auto rows = [&](auto x, Index first, Index seq, Index head) {
      return attention_test::matrix_of(posenc::slice_seq(x, first, seq), s.batch, head);
    };
    std::vector<double> log_gates;
    for (Index t = 0; t < s.keys; ++t) {
      log_gates.push_back(
          reference::log_sigmoid(logits[size(n)][size(t * call.c.shape.heads + h)]));
    }
    const Index place = s.keys - s.queries;
    reference::AttentionRule rule;
    rule.scale = call.c.default_scale();
    rule.allowed = [=](Index i, Index j) { return j <= place + i; };
    rule.bias = [&](Index i, Index j) {
      return reference::forgetting_bias(log_gates, place + i, j);
    };
    const auto g =
        reference::attention_backward(rows(call.c.q.view(), s.first_query, s.queries, h),
                                      rows(call.c.k.view(), s.first_key, s.keys, kv),
                                      rows(call.c.v.view(), s.first_key, s.keys, kv),
                                      rows(call.grad_out.view(), s.first_query, s.queries, h), rule)
            .gradients;
    std::vector<double> of_log(size(s.keys));
    for (Index i = 0; i < s.queries; ++i) {
      for (Index j = 0; j <= place + i; ++j) {
        for (Index t = j + 1; t <= place + i; ++t) of_log[size(t)] += g.bias(i, j);
      }
    }
    return of_log;
  }

  posenc::ForgetGates gates_;
  std::vector<Index> names_;
};

}  // namespace

TEMPLATE_TEST_CASE("ForgetGates: gates learn over a batch", "[attention][backward][forgetting]",
                   float, double) {
  GatedCall<TestType> x({2, 4, 2, 110, 140, 9, 5}, {{0, 0, 110, 0, 140}, {1, 0, 110, 0, 140}});
  x.run(support::Cutter{1000});
  CHECK(x.worst_error() < (std::is_same_v<TestType, double> ? 1e-12 : 2e-4));
}

TEST_CASE("ForgetGates: gates learn over packed sequences, the same on any device",
          "[attention][backward][forgetting][threads]") {
  GatedCall<float> x(
      {1, 2, 1, 300, 330, 9, 5},
      {{0, 0, 5, 0, 7}, {0, 5, 0, 7, 3}, {0, 5, 235, 10, 260}, {0, 240, 60, 270, 60}});
  const std::vector<Index> cu_q{0, 5, 5, 240, 300}, cu_k{0, 7, 10, 270, 330};
  x.call.options.cu_seqlens_q = cu_q;
  x.call.options.cu_seqlens_k = cu_k;
  const auto one = x.run(support::Cutter{1000});
  CHECK(x.worst_error() < 2e-4);
  const auto of_logits = x.of_logits;
  for (const int threads : {1, 2, 3}) {
    CAPTURE(threads);
    Eigen::ThreadPool pool(threads);
    const auto got = x.run(Eigen::ThreadPoolDevice(&pool, threads));
    CHECK(x.of_logits == of_logits);
    CHECK(support::same_bits(Gradients<float>(got).k.view(), Gradients<float>(one).k.view()));
  }
}

}  // namespace attention_backward_gates_test
