// SPDX-License-Identifier: MIT
// Gradients of biases, summed by distance and by segments, against sums score by score.
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/cutter.hpp"
#include "support/random.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/kerple.hpp>
#include <posenc/bias/t5.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace gradient_sums_test {

using posenc::Index;
using posenc::MatrixView;
using Values = std::vector<double>;

namespace {

/// Tile of random gradients, in which ends of some rows are masked.
struct Tile {
  Values queries, keys;
  std::vector<float> grad;

  Tile(Values q, Values k) : queries(std::move(q)), keys(std::move(k)) {
    support::Random random(7);
    grad.resize(queries.size() * keys.size());
    random.fill_normal(std::span<float>(grad));
    for (std::size_t i = 0; i < queries.size(); i += 3) {
      const auto begin = grad.begin() + static_cast<Index>(i * keys.size());
      std::fill(begin + static_cast<Index>(keys.size() / 2),
                begin + static_cast<Index>(keys.size()), 0.0F);
    }
  }
  MatrixView<const float> view() const {
    return {grad.data(), static_cast<Index>(queries.size()), static_cast<Index>(keys.size())};
  }
};

Values run(double first, Index count) {
  Values positions;
  for (Index n = 0; n < count; ++n) positions.push_back(first + static_cast<double>(n));
  return positions;
}

Values numbers(const Values& slopes) { return slopes; }
Values numbers(const posenc::KerpleGradient& gradient) { return {gradient.r1[0], gradient.r2[0]}; }
Values numbers(const posenc::TableGradient& gradient) {
  const auto view = gradient.view();
  return {view.data, view.data + view.rows};
}
Values numbers(const posenc::FireParameters& gradient) {
  Values all{gradient.c, gradient.threshold, gradient.output_bias[0]};
  for (const auto* part :
       {&gradient.hidden_weight, &gradient.hidden_bias, &gradient.output_weight}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  return all;
}

/// Compares the gradient of one call with that of one call per score.
template <class Bias>
void compare(const Bias& bias, const Tile& tile) {
  auto whole = bias.zero_gradient(), sum = bias.zero_gradient();
  bias.template add_gradient<float>(0, tile.queries, tile.keys, tile.view(), whole);
  for (std::size_t i = 0; i < tile.queries.size(); ++i) {
    for (std::size_t j = 0; j < tile.keys.size(); ++j) {
      const float& grad = tile.grad[i * tile.keys.size() + j];
      bias.template add_gradient<float>(0, std::span(&tile.queries[i], 1),
                                        std::span(&tile.keys[j], 1), {&grad, 1, 1}, sum);
    }
  }
  const Values got = numbers(whole), expected = numbers(sum);
  for (std::size_t n = 0; n < got.size(); ++n) {
    CAPTURE(n);
    CHECK(got[n] == Approx(expected[n]).epsilon(1e-10).margin(1e-8));
  }
}

}  // namespace

TEST_CASE("gradient sums: parts of rows are added in their order, on any device", "[bias]") {
  // 2 and 2^53 + 1, then 1, 0 and 2, rounded one by one to even numbers.
  const Values of_rows{1, 1, 0x1p53, 1, 1, 0, 0, 0, 1, 1};
  const auto sums = [&](const auto& device) {
    const auto total = posenc::detail::reduce_rows(
        device, Index{10}, Index{2}, 2, 1.0, [&](double* part, Index first, Index count) {
          for (Index row = first; row < first + count; ++row) {
            part[0] += of_rows[static_cast<std::size_t>(row)];
            part[1] += static_cast<double>(row);
          }
        });
    return Values{total[0], total[1]};
  };
  const Values want{0x1p53 + 6, 45};
  CHECK(sums(posenc::detail::CallingThread{}) == want);
  CHECK(sums(support::Cutter{1}) == want);
}

TEST_CASE("gradients of biases: are those of single scores", "[bias]") {
  // Consecutive positions over more than a block, runs that break, and fractional positions.
  Values broken = run(3, 40);
  for (std::size_t n = 17; n < broken.size(); ++n) broken[n] += 5;
  Values odd = run(0, 21);
  for (double& position : odd) position *= 0.75;
  const std::vector<Tile> tiles{{run(0, 300), run(0, 20)}, {run(550, 5), run(0, 600)},
                                {broken, run(2, 45)},      {run(2, 45), broken},
                                {odd, run(1, 9)},          {run(1, 9), odd}};
  const posenc::Alibi causal({.heads = 1, .form = posenc::AlibiForm::Causal});
  const posenc::Alibi symmetric({.heads = 1, .form = posenc::AlibiForm::Symmetric});
  const posenc::Kerple logarithm(
      {.form = posenc::KerpleForm::Logarithmic, .r1 = {1.5}, .r2 = {0.3}});
  const posenc::Kerple power({.form = posenc::KerpleForm::Power, .r1 = {1.5}, .r2 = {0.3}});
  const std::vector<float> table(32);
  const posenc::T5Bias t5(MatrixView<const float>{table.data(), 32, 1},
                          {.direction = posenc::T5Direction::Bidirectional});
  // Units that begin, end, begin at 0, and are always or never active; two with one breakpoint; one
  // at x = 1, where keys are as far as queries are from the start.
  const posenc::Fire fire({.c = 0.1,
                           .threshold = 30,
                           .hidden_weight = {1, -2, 0.5, 3, -1, 0, 0, 2, -0.5, 4, 1},
                           .hidden_bias = {-0.25, 1.5, 0, 1, -1, 1, -1, -0.5, 0.125, -1, -1},
                           .output_weight = {0.5, 1, -1, 2, 3, 1, 1, -0.25, 1, 0.75, 1},
                           .output_bias = {0.1}},
                          0);
  for (const Tile& tile : tiles) {
    CAPTURE(tile.queries.size(), tile.keys.size(), tile.queries[0]);
    compare(causal, tile);
    compare(symmetric, tile);
    compare(logarithm, tile);
    compare(power, tile);
    compare(t5, tile);
    compare(fire, tile);
  }
}

TEST_CASE("Fire gradient: units are inactive at their breakpoint", "[fire]") {
  // x = 1 if the key at 0 is as far as the query from the start. All units are at their breakpoint
  // there.
  const posenc::Fire fire({.c = 0.5,
                           .threshold = 2,
                           .hidden_weight = {3, -3, 1, 0.5},
                           .hidden_bias = {-3, 3, 0, 1},
                           .output_weight = {1, 1, 1, 1},
                           .output_bias = {0}},
                          0);
  for (const double query : {5.0, 11.0, 200.0}) {
    const Values queries{query}, key{0}, itself{query};
    const float grad = 2;
    auto gradient = fire.zero_gradient();
    fire.add_gradient<float>(0, queries, key, MatrixView<const float>{&grad, 1, 1}, gradient);
    CHECK(gradient.hidden_bias == Values{0, 0, 2, 2});
    gradient = fire.zero_gradient();
    fire.add_gradient<float>(0, queries, itself, MatrixView<const float>{&grad, 1, 1}, gradient);
    CHECK(gradient.hidden_bias == Values{0, 2, 0, 2});
  }
}

}  // namespace gradient_sums_test
