// SPDX-License-Identifier: MIT
// The lines of rotation.md: a rule that depends on the length, a table for all layers, cached keys
// that follow a change of frequencies or of positions, and weights for the other pairing.
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/rotary/permute.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/tensor/adapt.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <vector>

using posenc::Index;
using posenc::Positions;

namespace {

int failures = 0;

void expect(bool holds, const char* claim) {
  if (holds) return;
  std::cout << "wrong: " << claim << '\n';
  ++failures;
}

constexpr Index tokens = 40, heads = 2, dim = 128;

/// One sequence of numbers that look random.
std::vector<float> numbers(Index count, unsigned state) {
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& value : x) {
    state = state * 1664525 + 1013904223;
    value = static_cast<float>(state >> 8) / 8388608 - 1;
  }
  return x;
}

posenc::HeadsView<float> view(std::vector<float>& x) {
  return {.data = x.data(), .batch = 1, .seq = tokens, .heads = heads, .dim = dim};
}

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

}  // namespace

int main() {
  std::vector<float> q_memory = numbers(tokens * heads * dim, 1);
  std::vector<float> k_memory = numbers(tokens * heads * dim, 2);
  const std::vector<float> original_q = q_memory, original_k = k_memory;
  const auto q = view(q_memory), k = view(k_memory);
  const Index sequence_length = 4096 + tokens;
  const auto positions = Positions::range(4096, tokens);

  const posenc::DynamicNtkScaling rule{
      .rotary_dim = 128, .base = 10000, .factor = 2, .original_max_position = 4096};
  const posenc::Rope<posenc::HalfRotate> rope(frequencies(rule, sequence_length));
  const auto table = rope.table<float>(positions);  // once per forward pass
  table.rotate_all({q, k});                         // any layer, any thread

  std::vector<float> direct = original_q;
  rope.rotate(view(direct), positions);
  expect(direct == q_memory, "a table and a direct call give the same bits");

  // The sequence has doubled, and with it the base. Keys that are rotated already follow.
  const posenc::Rope<posenc::HalfRotate> longer(frequencies(rule, 2 * sequence_length));
  posenc::rerotate(k, rope, positions, longer, positions);

  std::vector<float> expected = original_k;
  longer.rotate(view(expected), positions);
  expect(largest_difference(k_memory, expected) < 2e-6F, "rerotate() equals a new rotation");

  // The oldest 1000 tokens were dropped: all keys move down by 1000 positions.
  posenc::shift_keys(k, longer, {-1000});

  expected = original_k;
  longer.rotate(view(expected), Positions::range(3096, tokens));
  expect(largest_difference(k_memory, expected) < 2e-6F, "shift_keys() equals a new rotation");

  // W_q of a checkpoint for Interleaved, [heads * head_dim, inputs].
  std::vector<float> weights = numbers(heads * dim * 8, 3), permuted = weights;
  posenc::permute_pairs<posenc::Interleaved, posenc::HalfRotate>(
      posenc::MatrixView<float>{.data = permuted.data(), .rows = heads * dim, .cols = 8},
      {.head_dim = dim, .rotary_dim = dim});
  posenc::permute_pairs<posenc::HalfRotate, posenc::Interleaved>(
      posenc::MatrixView<float>{.data = permuted.data(), .rows = heads * dim, .cols = 8},
      {.head_dim = dim, .rotary_dim = dim});
  expect(permuted == weights, "the way back restores the bits");
  return failures;
}
