// SPDX-License-Identifier: MIT
// Tests learned biases, dropout and boolean masks with extents of 0, and any number of rows.
#include "attention/empty_case.hpp"
#include "attention/learned_bias.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/bias/forget_gates.hpp>
#include <posenc/bias/forgetting.hpp>
#include <posenc/bias/window.hpp>
#include <posenc/core/error.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace empty_options_test {

using attention_test::LearnedBias;
using empty_case::extent;
using empty_case::fill;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::Index;
using support::Heads;

namespace {

/// Call with equal keys and equal values.
struct Call {
  Index b, sq, sk, h, hkv, d, dv;
  Heads<float> q{b, sq, h, d}, k{b, sk, hkv, d}, v{b, sk, hkv, dv}, out{b, sq, h, dv};
  Heads<float> grad{b, sq, h, dv}, grad_q{b, sq, h, d}, grad_k{b, sk, hkv, d},
      grad_v{b, sk, hkv, dv};
  std::vector<float> lse = std::vector<float>(static_cast<std::size_t>(b * h * sq) + 1);
  std::array<bool, 33> kept{}, hidden{};

  Call(unsigned zeros, Index rows)
      : b(extent(zeros, 0, 2)),
        sq(extent(zeros, 1, rows)),
        sk(extent(zeros, 2, 33)),
        h(extent(zeros, 3, 4)),
        hkv(extent(zeros, 4, 2)),
        d(extent(zeros, 5, 5)),
        dv(extent(zeros, 6, 3)) {
    for (auto* x : {&q, &k, &grad}) fill(*x, 1);
    fill(v, 2);
    for (std::size_t j = 1; j < kept.size(); j += 2) kept[j] = true;  // query 0 sees no key
    hidden.fill(true);
  }

  /// Calls visit() with no mask, a mask that keeps every other key, and one that masks all keys,
  /// each with and without dropout.
  template <class Visit>
  void for_options(const Visit& visit) {
    AttentionOptions<float> options{.causal = Causal::TopLeft};
    for (const double probability : {0.0, 0.5}) {
      options.dropout = {.probability = probability, .seed = 5};
      options.keep = options.masked = {};
      visit(options);
      options.keep = {kept.data(), 1, 1, 1, sk};
      visit(options);
      options.masked = {hidden.data(), 1, 1, 1, sk};
      visit(options);
    }
  }

  /// Checks that rows without visible keys are zero, and others are the values unless some are
  /// dropped. Equal values give scores a gradient of 0.
  void check(bool drops) {
    bool is_right = true;
    for (Index n = 0; n < b * h * sq; ++n) {
      const float of_row = lse[static_cast<std::size_t>(n)];
      const bool sees = of_row > -std::numeric_limits<float>::infinity();
      const Index i = n % sq, head = n / sq % h, row = n / sq / h;
      for (Index c = 0; c < dv; ++c) {
        const float value = out.view().row(row, i, head)[c];
        is_right = is_right && (sees && drops ? std::isfinite(value)
                                              : value == Approx(sees ? 2 : 0).margin(1e-5));
      }
    }
    for (auto* x : {&grad_q, &grad_k, &grad_v}) {
      const bool is_zero = !drops && x != &grad_v;
      x->for_each([&](float value) {
        is_right = is_right && std::isfinite(value) && (!is_zero || std::abs(value) < 1e-4F);
      });
    }
    REQUIRE(is_right);
  }

  template <class Bias>
  void run(const Bias& bias) {
    for_options([&](const AttentionOptions<float>& options) {
      for (auto* x : {&out, &grad_q, &grad_k, &grad_v}) fill(*x, 7);
      auto gradient = bias.zero_gradient();
      const posenc::LseView<float> rows{lse.data(), b, h, sq};
      try {
        posenc::attention<float>(q.view(), k.view(), v.view(), out.view(), options, bias,
                                 {.lse = rows});
        posenc::attention_backward<float>(
            q.view(), k.view(), v.view(), out.view(), rows, grad.view(),
            {grad_q.view(), grad_k.view(), grad_v.view()}, options, bias, gradient);
        check(options.dropout.probability > 0);
      } catch (const posenc::ShapeError&) {
        // The call is invalid without KV heads, or without heads of the bias.
        REQUIRE((hkv == 0 || h == 0));
      }
    });
  }
};

}  // namespace

TEST_CASE("attention: learned biases, dropout and boolean masks with any extent of 0",
          "[attention]") {
  support::Random random(4);
  const std::vector<float> table(121 * 4), logits(2 * 33 * 4);
  const posenc::WindowBias<float> window(posenc::MatrixView<const float>{table.data(), 121, 4},
                                         {.rows = 6, .cols = 6});
  posenc::ForgetGates gates(2, 4);
  const std::vector<Index> sequences{0, 1};
  gates.append(sequences, posenc::EmbeddingsView<const float>{logits.data(), 2, 33, 4});
  std::vector<LearnedBias> learned;
  for (const auto kind :
       {LearnedBias::T5, LearnedBias::Kerple, LearnedBias::PowerKerple, LearnedBias::Fire}) {
    learned.emplace_back(kind, 4, random);
  }
  for (unsigned zeros = 0; zeros < 128; ++zeros) {
    for (const Index rows : {1, 2, 12, 33}) {
      INFO("zeros " << zeros << ", rows " << rows);
      Call call(zeros, rows);
      for (const LearnedBias& bias : learned) call.run(bias.make());
      call.run(window);
      call.run(posenc::ForgettingBias(gates, sequences));
    }
  }
}

}  // namespace empty_options_test
