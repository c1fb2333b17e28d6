// SPDX-License-Identifier: MIT
// A moved-from bias can be used: it is complete, or its calls throw.
#include "support/catch.hpp"
#include <posenc/bias/log_cpb.hpp>
#include <posenc/bias/t5.hpp>
#include <posenc/bias/window.hpp>

#include <span>
#include <utility>
#include <vector>

namespace moved_biases_test {

using posenc::Index;
using posenc::MatrixView;

const std::vector<double> places{0, 1, 2, 3};

template <class Bias>
std::vector<float> tile_of(const Bias& bias) {
  std::vector<float> tile(16);
  bias.add(1, std::span<const double>(places), std::span<const double>(places),
           MatrixView<float>{tile.data(), 4, 4});
  return tile;
}

TEST_CASE("T5Bias: a moved-from bias adds as before", "[bias]") {
  std::vector<float> table(16);
  for (std::size_t n = 0; n < table.size(); ++n) table[n] = static_cast<float>(n);
  posenc::T5Bias<float> bias(MatrixView<const float>{table.data(), 8, 2},
                             {.buckets = 8, .direction = posenc::T5Direction::Causal});
  const auto before = tile_of(bias);
  const auto taken = std::move(bias);
  CHECK(tile_of(taken) == before);
  CHECK(tile_of(bias) == before);  // NOLINT(bugprone-use-after-move)
}

TEST_CASE("WindowBias: a moved-from bias has no heads", "[bias]") {
  const std::vector<float> table(18, 2);
  posenc::WindowBias<float> bias(MatrixView<const float>{table.data(), 9, 2},
                                 {.rows = 2, .cols = 2});
  const auto before = tile_of(bias);
  const auto taken = std::move(bias);
  CHECK(tile_of(taken) == before);
  CHECK(bias.heads() == 0);  // NOLINT(bugprone-use-after-move)
  CHECK_THROWS_AS(tile_of(bias), posenc::ShapeError);
}

TEST_CASE("LogCpb: a moved-from network makes its table as before", "[bias]") {
  posenc::LogCpb network({{1, 2, 3, 4}, {0, 1}, {1, 2, 3, 4}}, {.rows = 2, .cols = 2});
  const auto table_of = [](const posenc::LogCpb& from) {
    std::vector<float> table(18);
    from.evaluate(MatrixView<float>{table.data(), 9, 2});
    return table;
  };
  const auto before = table_of(network);
  const auto taken = std::move(network);
  CHECK(table_of(taken) == before);
  CHECK(table_of(network) == before);  // NOLINT(bugprone-use-after-move)
}

}  // namespace moved_biases_test
