// SPDX-License-Identifier: MIT
// Tests extents of 0, with any number of rows: results are those of empty sums.
#include "attention/empty_case.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/attention_backward.hpp>
#include <posenc/attention/merge.hpp>
#include <posenc/nn/linear.hpp>

#include <array>
#include <vector>

namespace empty_extents_test {

using empty_case::extent;
using empty_case::fill;
using posenc::AttentionOptions;
using posenc::Causal;
using posenc::EmbeddingsView;
using posenc::Index;
using support::Heads;

namespace {

constexpr std::array<Index, 8> key_counts{0, 1, 5, 31, 32, 64, 129, 200};

/// Fills v with the values 1, 2, 3, ... by key, whose mean is known.
void count_up(Heads<float>& v) {
  for (Index b = 0; b < v.view().batch; ++b) {
    for (Index s = 0; s < v.view().seq; ++s) {
      for (Index h = 0; h < v.view().heads; ++h) {
        for (Index d = 0; d < v.view().dim; ++d) {
          v.view().row(b, s, h)[d] = static_cast<float>(s + 1);
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("attention: heads without channels give the mean of the values", "[attention]") {
  for (Index queries = 0; queries <= 64; ++queries) {
    for (const Index keys : key_counts) {
      for (const Index kv_heads : {1, 2}) {
        INFO(queries << " queries, " << keys << " keys, " << kv_heads << " heads of keys");
        Heads<float> q(1, queries, 2, 0), k(1, keys, kv_heads, 0), v(1, keys, kv_heads, 3);
        Heads<float> out(1, queries, 2, 3);
        count_up(v);
        std::vector<float> lse(static_cast<std::size_t>(2 * queries));
        const AttentionOptions<float> options{.causal = Causal::No};
        const posenc::LseView<float> rows{lse.data(), 1, 2, queries};
        posenc::attention<float>(q.view(), k.view(), v.view(), out.view(), options, {},
                                 {.lse = rows});
        const double mean = keys == 0 ? 0 : static_cast<double>(keys + 1) / 2;
        bool is_mean = true;
        out.for_each([&](float x) { is_mean = is_mean && Approx(mean) == x; });
        REQUIRE(is_mean);
        Heads<float> grad(1, queries, 2, 3), grad_v(1, keys, kv_heads, 3);
        fill(grad, 1);
        posenc::attention_backward<float>(q.view(), k.view(), v.view(), out.view(), rows,
                                          grad.view(), {q.view(), k.view(), grad_v.view()},
                                          options);
        const double share =
            keys == 0 ? 0 : static_cast<double>(queries * 2 / kv_heads) / static_cast<double>(keys);
        bool is_share = true;
        grad_v.for_each([&](float x) { is_share = is_share && Approx(share).margin(1e-6) == x; });
        REQUIRE(is_share);
      }
    }
  }
}

TEST_CASE("attention: takes any extent of 0", "[attention]") {
  // Extents in order: batch, queries, keys, heads, kv_heads, dim, value_dim.
  for (unsigned zeros = 1; zeros < 128; ++zeros) {
    for (const Index rows : {1, 2, 12, 25, 40, 64}) {
      const Index b = extent(zeros, 0, 2), sq = extent(zeros, 1, rows), sk = extent(zeros, 2, 33),
                  h = extent(zeros, 3, 4), hkv = extent(zeros, 4, 2), d = extent(zeros, 5, 5),
                  dv = extent(zeros, 6, 3);
      INFO("zeros " << zeros << ", rows " << rows);
      Heads<float> q(b, sq, h, d), k(b, sk, hkv, d), v(b, sk, hkv, dv), out(b, sq, h, dv);
      Heads<float> grad(b, sq, h, dv), grad_q(b, sq, h, d), grad_k(b, sk, hkv, d),
          grad_v(b, sk, hkv, dv);
      std::vector<float> lse(static_cast<std::size_t>(b * h * sq));
      const AttentionOptions<float> options{.causal = Causal::BottomRight};
      const posenc::LseView<float> lse_rows{lse.data(), b, h, sq};
      try {
        posenc::attention<float>(q.view(), k.view(), v.view(), out.view(), options, {},
                                 {.lse = lse_rows});
        posenc::attention_backward<float>(q.view(), k.view(), v.view(), out.view(), lse_rows,
                                          grad.view(),
                                          {grad_q.view(), grad_k.view(), grad_v.view()}, options);
        posenc::merge(out.view(), lse_rows, grad.view(),
                      posenc::LseView<const float>{lse.data(), b, h, sq});
      } catch (const posenc::ShapeError&) {
        // The call is invalid if there are query heads but no KV heads.
        REQUIRE(hkv == 0);
      }
    }
  }
}

TEMPLATE_TEST_CASE("Linear: layers without inputs give their bias", "[attention][linear]",
                   posenc::Linear<float>, posenc::FixedOrderLinear<float>) {
  for (Index rows = 0; rows <= 64; ++rows) {
    for (const Index in : {0, 3}) {
      for (const Index out : {0, 1, 8, 200}) {
        for (const bool has_bias : {false, true}) {
          INFO(rows << " rows, " << in << " to " << out);
          TestType layer(in, out, has_bias);
          if (has_bias) layer.bias.fill(3);
          std::vector<float> x(static_cast<std::size_t>(rows * in)), grad_x(x.size());
          std::vector<float> y(static_cast<std::size_t>(rows * out), 7), grad(y.size(), 1);
          const auto view = [&](auto& data, Index dim) {
            return EmbeddingsView<float>{data.data(), 1, rows, dim};
          };
          layer.apply(view(x, in), view(y, out));
          REQUIRE(y == std::vector<float>(y.size(), has_bias ? 3.0F : 0.0F));
          posenc::LinearParameters<float> gradient(in, out, has_bias);
          layer.backward(view(x, in), view(grad, out), view(grad_x, in), gradient);
          for (Index n = 0; has_bias && n < out; ++n) {
            REQUIRE(gradient.bias(n) == static_cast<float>(rows));
          }
        }
      }
    }
  }
}

}  // namespace empty_extents_test
