// SPDX-License-Identifier: MIT
// Additive encodings, their gradients, and resizes on a device: bit-identical to one thread.
#define EIGEN_USE_THREADS
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/devices.hpp"
#include "support/random.hpp"
#include <posenc/additive/binary.hpp>
#include <posenc/additive/grid_resize.hpp>
#include <posenc/additive/integer.hpp>
#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/additive/sinusoidal_2d.hpp>

#include <span>
#include <vector>

namespace additive_threads_test {

using posenc::EmbeddingsView;
using posenc::Index;
using posenc::MatrixView;
using posenc::Positions;
using support::Bytes;

namespace {

constexpr Index batch = 3, seq = 150, dim = 38;

std::vector<float> random_values(Index count, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(count));
  support::Random(seed).fill_normal(std::span<float>(values));
  return values;
}

EmbeddingsView<float> view(std::vector<float>& x) {
  return {x.data(), batch, seq, dim, seq * dim, dim};
}

/// Returns positions with repetitions, [1, seq] or [batch, seq].
Positions repeating_positions(Index rows) {
  std::vector<Index> ids;
  for (Index i = 0; i < rows * seq; ++i) ids.push_back(i * 7 % 31);
  return Positions::ids(rows, ids);
}

}  // namespace

TEST_CASE("add_to: the same bits on every device", "[additive][threads]") {
  auto table = random_values(31 * dim, 1);
  const posenc::Learned learned(MatrixView<const float>{table.data(), 31, dim, dim});
  const posenc::Sinusoidal sinusoidal(
      {.model_dim = dim, .layout = posenc::SinusoidalLayout::Interleaved});
  const posenc::Sinusoidal2d grid({.model_dim = dim,
                                   .axis_order = posenc::GridAxisOrder::RowFirst,
                                   .layout = posenc::SinusoidalLayout::Concatenated});
  const posenc::BinaryEncoding binary({.model_dim = dim});
  const posenc::IntegerEncoding integer({.max_length = 100});
  for (const Index rows : {Index{1}, batch}) {
    const auto p = repeating_positions(rows);
    support::check_same_on_all_devices([&](const auto&... device) {
      auto x = random_values(batch * seq * dim, 2);
      auto y = x;
      learned.add_to(view(x), p, device...);
      sinusoidal.add_to(view(x), p, device...);
      grid.add_to(view(x), Positions::axes(std::vector{p, p}), device...);
      binary.add_to(view(x), p, device...);
      integer.add_to(view(x), p, device...);
      sinusoidal.write_to(view(y), p, device...);
      Bytes bytes;
      bytes.add(x);
      bytes.add(y);
      grid.write_to(view(y), Positions::axes(std::vector{p, p}), device...);
      bytes.add(y);
      return bytes;
    });
  }
}

TEST_CASE("accumulate_gradient of encodings: the same sums on every device",
          "[additive][threads]") {
  auto table = random_values(31 * dim, 1), grad = random_values(batch * seq * dim, 2);
  const posenc::Learned learned(MatrixView<const float>{table.data(), 31, dim, dim},
                                {.padding_row = 3});
  const posenc::Sinusoidal sinusoidal(
      {.model_dim = dim, .layout = posenc::SinusoidalLayout::Concatenated});
  for (const Index rows : {Index{1}, batch}) {
    const auto p = repeating_positions(rows);
    support::check_same_on_all_devices([&](const auto&... device) {
      auto sums = random_values(31 * dim, 3);
      learned.add_gradient(view(grad), p, MatrixView<float>{sums.data(), 31, dim, dim}, device...);
      Bytes bytes;
      bytes.add(sums);
      return bytes;
    });
    support::check_same_on_all_devices([&](const auto&... device) {
      Bytes bytes;
      bytes.add(std::vector{sinusoidal.scale_gradient(view(grad), p, device...)});
      return bytes;
    });
  }
  // An empty sum.
  CHECK(sinusoidal.scale_gradient(EmbeddingsView<float>{grad.data(), batch, 0, dim, 0, dim},
                                  Positions::range(0, 0)) == 0);
}

TEST_CASE("resize_grid: the same bits on every device", "[grid_resize][threads]") {
  const posenc::GridResizeConfig config{.source = {7, 5},
                                        .target = {4, 9},
                                        .filter = posenc::ResizeFilter::Bicubic,
                                        .prefix_tokens = 2};
  auto table = random_values((2 + 7 * 5) * dim, 1), grad = random_values((2 + 4 * 9) * dim, 2);
  support::check_same_on_all_devices([&](const auto&... device) {
    auto resized = grad, back = table;
    const auto of = [](std::vector<float>& x) {
      return MatrixView<float>{x.data(), static_cast<Index>(x.size()) / dim, dim, dim};
    };
    posenc::resize_grid(of(table), of(resized), config, device...);
    posenc::resize_grid_adjoint(of(grad), of(back), config, device...);
    Bytes bytes;
    bytes.add(resized);
    bytes.add(back);
    return bytes;
  });
}

}  // namespace additive_threads_test
