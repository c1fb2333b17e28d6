// SPDX-License-Identifier: MIT
// Gradient of forgetting attention's gates, from the gradient of scores.
#include "reference/forgetting.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include "support/throws.hpp"
#include <posenc/bias/forget_gradient.hpp>
#include <posenc/bias/forgetting.hpp>
#include <posenc/bias/table_gradient.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace forget_gradient_test {

using posenc::EmbeddingsView;
using posenc::ForgetGates;
using posenc::ForgetGradient;
using posenc::ForgettingBias;
using posenc::Index;
using posenc::MatrixView;
using posenc::ShapeError;
using support::message_of;

namespace {

constexpr Index tokens = 11, heads = 2;

std::size_t size(Index n) { return static_cast<std::size_t>(n); }

std::vector<double> random_numbers(Index count, std::uint64_t seed) {
  std::vector<double> numbers(size(count));
  support::Random(seed).fill_normal(numbers);
  return numbers;
}

/// Returns the sum of grad(i, j) times the bias of query i and key j in one head, with keys after
/// the query masked.
double loss(const std::vector<double>& logits, const std::vector<double>& grad, Index head) {
  std::vector<double> log_gates;
  for (Index t = 0; t < tokens; ++t) {
    log_gates.push_back(reference::log_sigmoid(logits[size(t * heads + head)]));
  }
  double sum = 0;
  for (Index i = 0; i < tokens; ++i) {
    for (Index j = 0; j <= i; ++j) {
      sum += grad[size(i * tokens + j)] * reference::forgetting_bias(log_gates, i, j);
    }
  }
  return sum;
}

/// Adds the tile [rows, cols], which begins at (i, j), of the gradient of a head's scores.
void add(const ForgettingBias& bias, Index sequence, Index head, Index i, Index j, Index rows,
         Index cols, const std::vector<double>& grad, ForgetGradient& gradient) {
  bias.add_gradient(
      {.sequence = sequence, .head = head, .first_query = i, .aligned_key = i, .first_key = j},
      MatrixView<const double>{grad.data() + i * tokens + j, rows, cols, tokens}, gradient);
}

}  // namespace

TEST_CASE("forget_gradient: three gates by hand", "[bias][forgetting]") {
  // Scores (0, -), (1, 0) and (2, 0), (2, 1) of the worked bias; ln f of token t counts where j < t
  // <= i.
  const std::vector<double> z{2, 0, -1}, grad{7, 0, 0, 2, 5, 0, 3, 11, -1};
  ForgetGates gates(1, 1);
  gates.append(0, EmbeddingsView<const double>{z.data(), 1, 3, 1});
  const std::vector<Index> sequences{0};
  const ForgettingBias bias(gates, sequences);
  ForgetGradient gradient = bias.zero_gradient();
  bias.add_gradient({}, MatrixView<const double>{grad.data(), 3, 3}, gradient);
  std::vector<double> log_gate_grads(3), logit_grads(3);
  gradient.log_gates(0, EmbeddingsView<double>{log_gate_grads.data(), 1, 3, 1});
  CHECK(log_gate_grads == std::vector<double>{0, 2 + 3, 3 + 11});
  gradient.logits(0, EmbeddingsView<const double>{z.data(), 1, 3, 1},
                  EmbeddingsView<double>{logit_grads.data(), 1, 3, 1});
  CHECK(logit_grads[1] == Approx(5 * 0.5));
  CHECK(logit_grads[2] == Approx(14 / (1 + std::exp(-1.0))));
}

TEST_CASE("forget_gradient: is the derivative of the bias", "[bias][forgetting]") {
  const auto logits = random_numbers(tokens * heads, 1);
  ForgetGates gates(2, heads);
  const EmbeddingsView<const double> sequence_logits{logits.data(), 1, tokens, heads};
  gates.append(1, sequence_logits);
  gates.append(0, sequence_logits);
  const std::vector<Index> sequences{1, 0};
  const ForgettingBias bias(gates, sequences);
  ForgetGradient gradient = bias.zero_gradient();
  std::vector<std::vector<double>> score_grads;
  for (Index n = 0; n < 2; ++n) {
    for (Index head = 0; head < heads; ++head) {
      score_grads.push_back(random_numbers(tokens * tokens, 2 + score_grads.size()));
      for (Index i = 0; i < tokens; ++i) {
        for (Index j = i + 1; j < tokens; ++j) score_grads.back()[size(i * tokens + j)] = 0;
      }
      // Gradient by tiles, some of them added to another gradient.
      ForgetGradient other = bias.zero_gradient();
      add(bias, n, head, 0, 0, 4, tokens, score_grads.back(), gradient);
      add(bias, n, head, 4, 0, 7, 3, score_grads.back(), other);
      add(bias, n, head, 4, 3, 7, 8, score_grads.back(), gradient);
      gradient += other;
    }
  }
  std::vector<double> got(size(2 * tokens * heads)), both = logits;
  both.insert(both.end(), logits.begin(), logits.end());
  gradient.logits(0, EmbeddingsView<const double>{both.data(), 2, tokens, heads},
                  EmbeddingsView<double>{got.data(), 2, tokens, heads});
  constexpr double step = 1e-4;
  for (Index n = 0; n < 2; ++n) {
    for (Index t = 0; t < tokens; ++t) {
      for (Index head = 0; head < heads; ++head) {
        CAPTURE(n, t, head);
        auto above = logits, below = logits;
        above[size(t * heads + head)] += step;
        below[size(t * heads + head)] -= step;
        const auto& grad = score_grads[size(n * heads + head)];
        const double want = (loss(above, grad, head) - loss(below, grad, head)) / (2 * step);
        CHECK(std::abs(got[size((n * tokens + t) * heads + head)] - want) < 1e-6);
      }
    }
  }
  // Gradients of the last tokens alone, written in place, are the same.
  std::vector<double> last(both.begin() + (tokens - 4) * heads, both.begin() + tokens * heads);
  gradient.logits(1, EmbeddingsView<const double>{last.data(), 1, 4, heads},
                  EmbeddingsView<double>{last.data(), 1, 4, heads});
  CHECK(last == std::vector<double>(got.end() - 4 * heads, got.end()));
}

TEST_CASE("forget_gradient: gates that are shut or NaN", "[bias][forgetting]") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<float> z{9, 1, -1e9F, static_cast<float>(nan), 1e9F}, grad{0, 0, 1, 2, 3, 4};
  ForgetGates gates(1, 1);
  gates.append(0, EmbeddingsView<const float>{z.data(), 1, 5, 1});
  gates.evict_before(0, 1);
  const std::vector<Index> sequences{0};
  const ForgettingBias bias(gates, sequences);
  ForgetGradient gradient = bias.zero_gradient();
  CHECK(gradient.tokens()[0] == 4);
  bias.add_gradient({.aligned_key = 3, .first_key = 1},
                    MatrixView<const float>{grad.data() + 2, 2, 2}, gradient);
  std::vector<float> got(4);
  gradient.logits(0, EmbeddingsView<const float>{z.data() + 1, 1, 4, 1},
                  EmbeddingsView<float>{got.data(), 1, 4, 1});
  CHECK(got[1] == 0);  // the log gate is clamped
  CHECK(std::isnan(got[2]));
  CHECK(got[3] == 0);  // open gate: 1 - f is 0
  CHECK(got[0] == 0);  // no score depends on the oldest gate
}

TEST_CASE("forget_gradient: rejects other shapes", "[bias][forgetting][errors]") {
  ForgetGradient gradient(2, {4, 3});
  std::vector<float> memory(64, 5);
  const auto tile = [&](Index rows, Index cols) {
    return MatrixView<const float>{memory.data(), rows, cols};
  };
  CHECK(message_of<ShapeError>([&] {
          gradient += ForgetGradient(2, {4, 2});
        }) ==
        "posenc::ForgetGradient: the gradient to add must have 2 heads and the tokens [4, 3] but "
        "has 2 "
        "and [4, 2]");
  CHECK(message_of<ShapeError>([&] {
          gradient += ForgetGradient(1, {4, 3});
        }) ==
        "posenc::ForgetGradient: the gradient to add must have 2 heads and the tokens [4, 3] but "
        "has 1 "
        "and [4, 3]");
  CHECK(message_of<ShapeError>([&] { gradient.add(2, 0, 0, 0, tile(1, 1)); }) ==
        "posenc::ForgetGradient::add: sequences must lie within the 2 but are 1 from 2 on");
  CHECK(message_of<ShapeError>([&] { gradient.add(1, 1, 2, 0, tile(2, 1)); }) ==
        "posenc::ForgetGradient::add: grad [2, 1] of head 1, from query 2 and key 0 on, must lie "
        "within the 2 heads and 3 tokens of sequence 1");
  CHECK(message_of<ShapeError>([&] { gradient.add(1, 1, -1, 0, tile(2, 1)); }) !=
        "nothing was thrown");
  CHECK(message_of<ShapeError>([&] { gradient.add(1, 2, 0, 0, tile(2, 1)); }) !=
        "nothing was thrown");
  const auto view = [&](Index batch, Index n, Index dim) {
    return EmbeddingsView<float>{memory.data(), batch, n, dim};
  };
  CHECK(message_of<ShapeError>([&] { gradient.log_gates(1, view(2, 3, 2)); }) ==
        "posenc::ForgetGradient::log_gates: sequences must lie within the 2 but are 2 from 1 on");
  CHECK(message_of<ShapeError>([&] { gradient.log_gates(0, view(1, 3, 3)); }) ==
        "posenc::ForgetGradient::log_gates: grad_log_gates must be of 2 heads but is [1, 3, 3]");
  CHECK(message_of<ShapeError>([&] { gradient.log_gates(0, view(2, 4, 2)); }) ==
        "posenc::ForgetGradient::log_gates: grad_log_gates [2, 4, 2] must have no more than the 3 "
        "tokens of sequence 1");
  CHECK(message_of<ShapeError>([] {
          ForgetGradient(2, {3, -1});
        }) ==
        "posenc::ForgetGradient: the tokens of a sequence must not be negative and must fit into "
        "memory, but are -1 with 2 heads");
  CHECK(message_of<ShapeError>([] { posenc::TableGradient(Index{1} << 40, Index{1} << 40); }) ==
        "posenc::TableGradient: rows (1099511627776) and cols (1099511627776) must not be "
        "negative, and their product must fit into memory");
  auto flat = view(1, 3, 2);
  flat.seq_stride = 0;
  CHECK(message_of<ShapeError>([&] { gradient.log_gates(0, flat); }) != "nothing was thrown");
  CHECK(message_of<ShapeError>([&] { gradient.logits<float>(0, view(1, 3, 2), view(1, 2, 2)); }) ==
        "posenc::ForgetGradient::logits: grad_logits must have the shape of the logits [1, 3, 2] "
        "but is [1, 2, "
        "2]");
  for (const float value : memory) CHECK(value == 5);
}

}  // namespace forget_gradient_test
