// SPDX-License-Identifier: MIT
// Biases with learned parameters: T5, Swin's windows, KERPLE and FIRE, one tile per head.
#include "../support/limits.hpp"
#include "../support/random_values.hpp"
#include <posenc/bias/fire.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/bias/window.hpp>
#include <posenc/tensor/eigen.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace {

using bench::Index, bench::random_values;
using Scores = Eigen::Tensor<float, 3, Eigen::RowMajor>;  // [heads, queries, keys]

/// Adds a bias for the last `queries` positions and all `keys`. The baseline is a loop over scores
/// in which plain(query, key, add) calls add(head, bias) for each head.
template <class Bias, class Plain>
void bias_case(benchmark::State& state, const Bias& bias, Index heads, Index queries, Index keys,
               const Plain& plain) {
  Scores scores(heads, queries, keys);
  scores.setConstant(1);
  std::vector<double> query_positions, key_positions;
  for (Index i = keys - queries; i < keys; ++i) query_positions.push_back(static_cast<double>(i));
  for (Index j = 0; j < keys; ++j) key_positions.push_back(static_cast<double>(j));

  bench::Comparison(state,
                    [&] {
                      for (Index h = 0; h < heads; ++h) {
                        float* tile = scores.data() + h * queries * keys;
                        bias.add(h, query_positions, key_positions,
                                 posenc::MatrixView<float>{tile, queries, keys, keys});
                      }
                    })
      .beside("vs_limit", bench::scale(scores.data(), scores.size()))
      .faster_than("vs_plain",
                   [&] {
                     float* x = bench::opaque(scores.data());
                     for (Index i = 0; i < queries; ++i) {
                       for (Index j = 0; j < keys; ++j) {
                         plain(keys - queries + i, j, [&](Index h, float value) {
                           x[(h * queries + i) * keys + j] += value;
                         });
                       }
                     }
                   })
      .measure(2 * scores.size() * Index{sizeof(float)});
}

void t5_case(benchmark::State& state, posenc::T5Direction direction, Index heads, Index queries,
             Index keys) {
  using Table = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Table table = Table::Random(32, 16);
  const posenc::T5Bias<float> bias({table.data(), 32, 16, 16}, {.direction = direction});
  const bool both = direction == posenc::T5Direction::Bidirectional;
  const Index buckets = both ? 16 : 32, exact = buckets / 2;
  const float scale =
      static_cast<float>(buckets - exact) / std::log(128.0F / static_cast<float>(exact));
  bias_case(state, bias, heads, queries, keys, [&](Index query, Index key, const auto& add) {
    const Index distance = both ? std::abs(query - key) : std::max(query - key, Index{0});
    Index bucket = distance;
    if (distance >= exact) {
      const float log = std::log(static_cast<float>(distance) / static_cast<float>(exact));
      bucket = std::min(exact + static_cast<Index>(log * scale), buckets - 1);
    }
    if (both && key > query) bucket += buckets;
    for (Index h = 0; h < heads; ++h) add(h, table(bucket, h));
  });
}

/// Baseline as in Swin: an index for every pair of tokens, computed once.
void window_case(benchmark::State& state, Index side, Index heads) {
  using Table = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const posenc::WindowConfig config{.rows = side, .cols = side};
  const posenc::WindowIndex index(config);
  const Index tokens = index.tokens();
  const Table table = Table::Random(index.table_rows(), heads);
  const posenc::WindowBias<float> bias({table.data(), table.rows(), heads}, config);
  std::vector<Index> rows;
  for (Index query = 0; query < tokens; ++query) {
    for (Index key = 0; key < tokens; ++key) {
      rows.push_back(index.row(static_cast<double>(query), static_cast<double>(key)));
    }
  }
  bias_case(state, bias, heads, tokens, tokens, [&](Index query, Index key, const auto& add) {
    const Index row = rows[static_cast<std::size_t>(query * tokens + key)];
    for (Index h = 0; h < heads; ++h) add(h, table(row, h));
  });
}

void kerple_case(benchmark::State& state, posenc::KerpleForm form, Index heads, Index queries,
                 Index keys) {
  const posenc::KerpleConfig config{.form = form,
                                    .r1 = random_values<double>(12, 0.1, 2),
                                    .r2 = random_values<double>(12, 0.1, 1)};
  const std::vector<float> r1(config.r1.begin(), config.r1.end()),
      r2(config.r2.begin(), config.r2.end());
  const bool power = form == posenc::KerpleForm::Power;
  bias_case(
      state, posenc::Kerple(config), heads, queries, keys,
      [&](Index query, Index key, const auto& add) {
        const auto distance = static_cast<float>(std::abs(query - key));
        for (Index h = 0; h < heads; ++h) {
          const auto at = static_cast<std::size_t>(h);
          add(h, -r1[at] * (power ? std::pow(distance, r2[at]) : std::log(1 + r2[at] * distance)));
        }
      });
}

void fire_case(benchmark::State& state, Index heads, Index queries, Index keys) {
  constexpr Index width = 32;
  const posenc::FireParameters p{.c = 0.1,
                                 .threshold = 512,
                                 .hidden_weight = random_values<double>(width, -1, 1),
                                 .hidden_bias = random_values<double>(width, -1, 1),
                                 .output_weight = random_values<double>(12 * width, -0.2, 0.2),
                                 .output_bias = random_values<double>(12, -0.2, 0.2)};
  const Eigen::ArrayXf
      weight = Eigen::Map<const Eigen::ArrayXd>(p.hidden_weight.data(), width).cast<float>(),
      offset = Eigen::Map<const Eigen::ArrayXd>(p.hidden_bias.data(), width).cast<float>(),
      out = Eigen::Map<const Eigen::ArrayXd>(p.output_weight.data(), 12 * width).cast<float>();
  bias_case(state, posenc::Fire(p), heads, queries, keys,
            [&](Index query, Index key, const auto& add) {
              const auto reach = static_cast<float>(std::max(query, Index{512}));
              const auto distance = static_cast<float>(std::abs(query - key));
              const float x = std::log(1 + 0.1F * distance) / (std::log(1 + 0.1F * reach) + 1e-6F);
              const Eigen::Array<float, width, 1> hidden = (weight * x + offset).max(0.0F);
              for (Index h = 0; h < heads; ++h) {
                add(h, (hidden * out.segment<width>(h * width)).sum() +
                           static_cast<float>(p.output_bias[static_cast<std::size_t>(h)]));
              }
            });
}

void add_learned() {
  using benchmark::State;
  using posenc::KerpleForm;
  using posenc::T5Direction;
  bench::add("bias/t5_large/tile_12x128/t5",
             [](State& state) { t5_case(state, T5Direction::Causal, 1, 12, 128); });
  bench::add("bias/t5_large/encode_512/t5",
             [](State& state) { t5_case(state, T5Direction::Bidirectional, 16, 512, 512); });
  bench::add("bias/swin_tiny/window_7x7/window", [](State& state) { window_case(state, 7, 3); });
  bench::add("bias/beit_base/window_14x14/window",
             [](State& state) { window_case(state, 14, 12); });
  bench::add("bias/kerple_162m/tile_12x128/logarithmic",
             [](State& state) { kerple_case(state, KerpleForm::Logarithmic, 1, 12, 128); });
  bench::add("bias/kerple_162m/tile_12x128/power",
             [](State& state) { kerple_case(state, KerpleForm::Power, 1, 12, 128); });
  bench::add("bias/kerple_162m/prefill_512/logarithmic",
             [](State& state) { kerple_case(state, KerpleForm::Logarithmic, 12, 512, 512); });
  bench::add("bias/fire_125m/tile_12x128/fire", [](State& state) { fire_case(state, 1, 12, 128); });
  bench::add("bias/fire_125m/prefill_512/fire",
             [](State& state) { fire_case(state, 12, 512, 512); });
}

const bool added = (add_learned(), true);

}  // namespace
