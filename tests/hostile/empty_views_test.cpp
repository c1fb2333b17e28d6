// SPDX-License-Identifier: MIT
// A view with an axis of 0 is processed at once, however long its other axes are. ctest's time
// limit checks this.
#include "hostile/empty_extents.hpp"
#include "support/catch.hpp"
#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/attention/merge.hpp>
#include <posenc/attention/relative_bias.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <vector>

namespace empty_views_test {

using empty_extents::for_empty;
using empty_extents::make;
using posenc::Causal;
using posenc::EmbeddingsView;
using posenc::HeadsView;
using posenc::Index;
using posenc::Positions;

TEST_CASE("attention beside huge extents: empty queries return at once", "[hostile]") {
  float number = 0;
  // Axes: batch, queries, heads, dim. There are as many keys, or 5.
  for_empty<4>({1, 3, 1, 8}, [&](const std::array<Index, 4>& n) {
    const HeadsView<float> q{
        .data = &number, .batch = n[0], .seq = n[1], .heads = n[2], .dim = n[3]};
    // Without heads, or without queries and batch rows, there is nothing to compute. Without
    // channels there is.
    if (n[0] != 0 && n[1] != 0 && n[2] != 0) return;
    INFO(n[0] << ", " << n[1] << ", " << n[2] << ", " << n[3]);
    const posenc::LseView<float> lse{&number, n[0], n[2], n[1]};
    make([&] { posenc::attention<float>(q, q, q, q, {.causal = Causal::BottomRight}); });
    make([&] {
      posenc::attention_backward<float>(q, q, q, q, lse, q, {q, q, q}, {.causal = Causal::No});
    });
    make([&] { posenc::merge(q, lse, q, lse); });
  });
}

TEST_CASE("rotate beside huge extents: empty tensors return at once", "[hostile]") {
  float number = 0;
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 8, .base = 10000});
  for_empty<4>({1, 3, 1, 8}, [&](const std::array<Index, 4>& n) {
    const HeadsView<float> x{
        .data = &number, .batch = n[0], .seq = n[1], .heads = n[2], .dim = n[3]};
    INFO(n[0] << ", " << n[1] << ", " << n[2] << ", " << n[3]);
    make([&] { rope.rotate(x, Positions::range(0, n[1])); });
  });
}

TEST_CASE("add_to beside huge extents: empty embeddings return at once", "[hostile]") {
  float number = 0;
  const std::vector<float> rows(80);
  const posenc::Sinusoidal sinusoidal(
      {.model_dim = 8, .layout = posenc::SinusoidalLayout::Concatenated});
  const posenc::Learned<float> learned(posenc::MatrixView<const float>{rows.data(), 10, 8});
  for_empty<3>({1, 3, 8}, [&](const std::array<Index, 3>& n) {
    const EmbeddingsView<float> x{&number, n[0], n[1], n[2]};
    INFO(n[0] << ", " << n[1] << ", " << n[2]);
    make([&] { sinusoidal.add_to(x, Positions::range(0, n[1])); });
    make([&] { learned.add_to(x, Positions::range(0, n[1])); });
  });
}

TEST_CASE("add_to beside huge extents: biases of heads are added to empty tensors at once",
          "[hostile]") {
  float number = 0;
  std::vector<float> numbers(8);
  for_empty<4>({1, 3, 1, 8}, [&](const std::array<Index, 4>& n) {
    const HeadsView<float> x{
        .data = &number, .batch = n[0], .seq = n[1], .heads = n[2], .dim = n[3]};
    const HeadsView<float> bias{
        .data = numbers.data(), .batch = 1, .seq = 1, .heads = n[2], .dim = n[3]};
    if (!bias.empty() && (n[2] > 1 || n[3] > 8)) return;  // numbers that must be there
    INFO(n[0] << ", " << n[1] << ", " << n[2] << ", " << n[3]);
    make([&] { posenc::add_to_heads<float>(x, bias, x); });
    make([&] { posenc::add_heads_gradient<float>(x, bias); });
  });
}

TEST_CASE("views without features: any strides, and no memory", "[hostile]") {
  constexpr Index largest = std::numeric_limits<Index>::max();
  std::vector<float> numbers(48, 0.5F), grad_q(24, 7.0F), grad_k(16, 7.0F), lse(6), other(6);
  const HeadsView<float> q{numbers.data(), 1, 3, 2, 4}, k{numbers.data(), 1, 4, 1, 4};
  for (const Index stride : {Index{32}, Index{-7}, largest / 2, -largest - 1}) {
    for (float* const memory : {static_cast<float*>(nullptr), numbers.data()}) {
      CAPTURE(stride);
      const auto empty = [&](Index seq, Index heads) {
        return HeadsView<float>{memory, 1, seq, heads, 0, stride, stride, stride};
      };
      const posenc::LseView<float> rows{lse.data(), 1, 2, 3}, others{other.data(), 1, 2, 3};
      const posenc::AttentionOptions<float> options{.causal = Causal::No};
      // Values without features, and the log-sum-exps of their scores.
      posenc::attention<float>(q, k, empty(4, 1), empty(3, 2), options, {}, {.lse = rows});
      CHECK(std::abs(lse[5] - (0.5F + std::log(4.0F))) < 1e-6F);
      posenc::attention_backward<float>(q, k, empty(4, 1), empty(3, 2), rows, empty(3, 2),
                                        {{grad_q.data(), 1, 3, 2, 4}, {grad_k.data(), 1, 4, 1, 4}},
                                        options);
      CHECK((grad_q[23] == 0 && grad_k[15] == 0));
      posenc::merge(empty(3, 2), rows, empty(3, 2), others);
      // Queries and keys without features, so that all scores are 0.
      std::vector<float> out(24), grad_v(16);
      const HeadsView<float> output{out.data(), 1, 3, 2, 4};
      posenc::attention<float>(empty(3, 2), empty(4, 1), k, output, options, {}, {.lse = rows});
      CHECK(out[23] == 0.5F);
      posenc::attention_backward<float>(empty(3, 2), empty(4, 1), k, output, rows, q,
                                        {.v = {grad_v.data(), 1, 4, 1, 4}}, options);
      CHECK(grad_v[15] == 0.75F);
      if (memory == nullptr) continue;  // a table without memory is none
      const posenc::RelativeBias<float> bias{
          .table = empty(5, 2),
          .index = {.order = posenc::RelativeOrder::KeyMinusQuery,
                    .first = -2,
                    .beyond = posenc::BeyondTable::Nearest},
          .scale = posenc::RelativeScale::Scaled,
          .queries = empty(3, 2)};
      posenc::attention<float>(q, k, k, output, {.causal = Causal::BottomRight}, bias);
    }
  }
}

}  // namespace empty_views_test
