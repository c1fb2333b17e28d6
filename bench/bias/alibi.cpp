// SPDX-License-Identifier: MIT
// ALiBi for scores of BLOOM-176B (112 heads), one tile per head.
#include "../support/limits.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/tensor/eigen.hpp>

#include <string>
#include <vector>

namespace {

using bench::Index;
using Scores = Eigen::Tensor<float, 3, Eigen::RowMajor>;  // [heads, queries, keys]

void plain_add(Scores& scores, const std::vector<float>& slopes, Index first_query) {
  float* x = bench::opaque(scores.data());
  for (Index h = 0; h < scores.dimension(0); ++h) {
    const float slope = slopes[static_cast<std::size_t>(h)];
    for (Index i = 0; i < scores.dimension(1); ++i) {
      for (Index j = 0; j < scores.dimension(2); ++j) {
        *x++ -= slope * static_cast<float>(first_query + i - j);
      }
    }
  }
}

void eigen_add(Scores& scores, const Eigen::Tensor<float, 1, Eigen::RowMajor>& slopes,
               const Eigen::Tensor<float, 2, Eigen::RowMajor>& distances) {
  using Three = Eigen::array<Index, 3>;
  const Index heads = scores.dimension(0), queries = scores.dimension(1),
              keys = scores.dimension(2);
  scores -= slopes.reshape(Three{heads, 1, 1}).broadcast(Three{1, queries, keys}) *
            distances.reshape(Three{1, queries, keys}).broadcast(Three{heads, 1, 1});
}

/// Adds the bias for the last `queries` positions and all `keys`, for some of the heads.
void alibi_case(benchmark::State& state, Index heads, Index queries, Index keys) {
  Scores scores(heads, queries, keys);
  scores.setConstant(1);
  std::vector<double> query_positions, key_positions;
  for (Index i = keys - queries; i < keys; ++i) query_positions.push_back(static_cast<double>(i));
  for (Index j = 0; j < keys; ++j) key_positions.push_back(static_cast<double>(j));

  const posenc::Alibi alibi({.heads = 112, .form = posenc::AlibiForm::Causal});
  std::vector<posenc::MatrixView<float>> tiles;
  for (Index h = 0; h < heads; ++h) {
    tiles.push_back({scores.data() + h * queries * keys, queries, keys, keys});
  }

  const std::vector<float> slopes(alibi.slopes().begin(), alibi.slopes().end());
  Eigen::Tensor<float, 1, Eigen::RowMajor> slope_tensor(heads);
  for (Index h = 0; h < heads; ++h) slope_tensor(h) = slopes[static_cast<std::size_t>(h)];
  Eigen::Tensor<float, 2, Eigen::RowMajor> distances(queries, keys);
  for (Index i = 0; i < queries; ++i) {
    for (Index j = 0; j < keys; ++j) distances(i, j) = static_cast<float>(keys - queries + i - j);
  }

  bench::Comparison(state,
                    [&] {
                      for (Index h = 0; h < heads; ++h) {
                        alibi.add(h, query_positions, key_positions,
                                  tiles[static_cast<std::size_t>(h)]);
                      }
                    })
      .beside("vs_limit", bench::scale(scores.data(), scores.size()))
      .faster_than("vs_plain", [&] { plain_add(scores, slopes, keys - queries); })
      .faster_than("vs_eigen", [&] { eigen_add(scores, slope_tensor, distances); })
      .measure(2 * scores.size() * Index{sizeof(float)});
}

void add_alibi() {
  const std::string model = "bias/bloom_176b/";
  bench::add(model + "decode_4096/alibi",
             [](benchmark::State& state) { alibi_case(state, 112, 1, 4096); });
  // Tile size that attention passes to a bias.
  bench::add(model + "tile_12x128/alibi",
             [](benchmark::State& state) { alibi_case(state, 1, 12, 128); });
  bench::add(model + "tile_64x1024/alibi",
             [](benchmark::State& state) { alibi_case(state, 1, 64, 1024); });
  bench::add(model + "prefill_1024_16_heads/alibi",
             [](benchmark::State& state) { alibi_case(state, 16, 1024, 1024); });
}

const bool added = (add_alibi(), true);

}  // namespace
