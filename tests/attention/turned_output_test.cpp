// SPDX-License-Identifier: MIT
// Tests attention whose values are the rotated keys, and whose output is rotated back: DeepSeek-V4.
#include "reference/rope.hpp"
#include "support/catch.hpp"
#include "support/heads.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/rotary/rope.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace turned_output_test {

using posenc::Index;
using posenc::Interleaved;
using posenc::Positions;
using posenc::Rope;
using support::Heads;

namespace {

constexpr Index heads = 3, dim = 12, offset = 8, queries = 4, keys = 7;
constexpr double scale = 0.35;

/// Positions of local keys, followed by keys that represent 4 tokens each, at the first of these.
const std::vector<Index> at_keys{3, 4, 5, 6, 0, 4, 8}, at_queries{3, 4, 5, 6};

Positions shifted(std::vector<Index> at, Index by) {
  for (Index& position : at) position += by;
  return Positions::ids(at);
}

/// Runs the complete example: one KV head, whose keys are the values, too.
Heads<double> attend(const Rope<Interleaved>& rope, Heads<double> q, Heads<double> k, Index by) {
  Heads<double> out(1, queries, heads, dim);
  const auto positions = shifted(at_queries, by);
  rope.rotate_queries(q.view(), positions);
  rope.rotate_keys(k.view(), shifted(at_keys, by));
  posenc::attention(q.view(), k.view(), k.view(), out.view(),
                    {.scale = scale, .causal = posenc::Causal::No});
  rope.inverse(out.view(), positions);
  return out;
}

Rope<Interleaved> compressed_rope() {
  return Rope<Interleaved>(posenc::YarnScaling{.rotary_dim = dim - offset,
                                               .base = 160000,
                                               .factor = 16,
                                               .original_max_position = 64,
                                               .attention_factor = 1},
                           offset);
}

double largest_difference(Heads<double> a, Heads<double> b) {
  double worst = 0;
  for (Index s = 0; s < queries; ++s) {
    for (Index h = 0; h < heads; ++h) {
      worst = std::max(worst, support::max_abs_difference(support::row_of(a.view(), 0, s, h),
                                                          support::row_of(b.view(), 0, s, h)));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("inverse of the output: by hand", "[attention][rope]") {
  // One pair that rotates by 1 rad per token; the probabilities 0.25 and 0.75 are set by a bias.
  const Rope<Interleaved> rope(posenc::Frequencies::from_inv_freq({1.0}));
  std::vector<double> q{0, 0}, k{1, 0, 0, 1}, bias{std::log(0.25), std::log(0.75)}, out(2);
  const posenc::HeadsView<double> keys_of{k.data(), 1, 2, 1, 2, 4, 2, 2};
  const posenc::HeadsView<double> queries_of{q.data(), 1, 1, 1, 2, 2, 2, 2};
  const posenc::HeadsView<double> output{out.data(), 1, 1, 1, 2, 2, 2, 2};
  rope.rotate_keys(keys_of, Positions::ids({0, 2}));
  posenc::attention(queries_of, keys_of, keys_of, output,
                    {.causal = posenc::Causal::No, .additive = {bias.data(), 1, 1, 1, 2, 2, 2, 2}});
  CHECK(out[0] == Approx(-0.4319730701).epsilon(1e-9));
  CHECK(out[1] == Approx(-0.3121101274).epsilon(1e-9));
  rope.inverse(output, Positions::ids({2}));
  CHECK(out[0] == Approx(-0.1040367091).epsilon(1e-9));
  CHECK(out[1] == Approx(0.5226756433).epsilon(1e-9));
}

TEST_CASE("inverse of the output: each value is rotated by its distance alone",
          "[attention][rope]") {
  support::Random random(1);
  auto q = Heads<double>::random(random, 1, queries, heads, dim);
  auto k = Heads<double>::random(random, 1, keys, 1, dim);
  const auto rope = compressed_rope();
  auto out = attend(rope, q, k, 0);
  const auto rounded = rope.frequencies().inv_freq();
  const std::vector<long double> w(rounded.begin(), rounded.end());
  const reference::RopeRule rule{reference::Pairing::Interleaved, offset};

  for (Index i = 0; i < queries; ++i) {
    for (Index h = 0; h < heads; ++h) {
      // Scores depend on distances too, because only keys are rotated.
      const auto query = support::row_of(q.view(), 0, i, h);
      std::vector<double> expected(static_cast<std::size_t>(dim), 0.0);
      double sum = 0;
      for (Index j = 0; j < keys; ++j) {
        const auto distance = static_cast<double>(at_keys[static_cast<std::size_t>(j)] -
                                                  at_queries[static_cast<std::size_t>(i)]);
        const auto turned =
            reference::rotate(support::row_of(k.view(), 0, j, 0), distance, w, rule);
        double score = 0;
        for (std::size_t d = 0; d < turned.size(); ++d) score += query[d] * turned[d];
        const double weight = std::exp(scale * score);
        sum += weight;
        for (std::size_t d = 0; d < turned.size(); ++d) expected[d] += weight * turned[d];
      }
      for (double& value : expected) value /= sum;
      CHECK(support::max_abs_difference(support::row_of(out.view(), 0, i, h), expected) < 1e-13);
    }
  }
}

TEST_CASE("inverse of the output: does not depend on absolute positions", "[attention][rope]") {
  support::Random random(2);
  const auto q = Heads<double>::random(random, 1, queries, heads, dim);
  const auto k = Heads<double>::random(random, 1, keys, 1, dim);
  const auto rope = compressed_rope();
  const auto out = attend(rope, q, k, 0);
  CHECK(largest_difference(out, attend(rope, q, k, 1000000)) < 1e-12);
  CHECK(largest_difference(
            out, attend(Rope<Interleaved>(posenc::Unscaled{.rotary_dim = 4, .base = 10000}, offset),
                        q, k, 0)) > 1e-3);
}

TEST_CASE("inverse of the output: its gradient is that of rotation", "[attention][rope]") {
  support::Random random(3);
  auto x = Heads<double>::random(random, 1, queries, heads, dim);
  auto g = Heads<double>::random(random, 1, queries, heads, dim);
  const auto rope = compressed_rope();
  auto y = x, back = g;
  rope.inverse(y.view(), Positions::ids(at_queries));
  rope.rotate(back.view(), Positions::ids(at_queries));
  double forward = 0, backward = 0;
  for (Index s = 0; s < queries; ++s) {
    for (Index h = 0; h < heads; ++h) {
      for (Index d = 0; d < dim; ++d) {
        forward += y.view().row(0, s, h)[d] * g.view().row(0, s, h)[d];
        backward += x.view().row(0, s, h)[d] * back.view().row(0, s, h)[d];
      }
    }
  }
  CHECK(forward == Approx(backward).epsilon(1e-13));
}

}  // namespace turned_output_test
