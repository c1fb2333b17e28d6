// SPDX-License-Identifier: MIT
#include "check.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <utility>

namespace ring {
namespace {

float largest_magnitude(const float* first, const float* last) {
  float largest = 0;
  for (; first != last; ++first) largest = (std::max)(largest, std::abs(*first));
  return largest;
}

/// How far it is from a number to the next.
float ulp(float x) { return std::nextafter(x, std::numeric_limits<float>::infinity()) - x; }

/// NaN, which is no result, is as far off as can be.
float distance(float a, float b) {
  const float distance = std::abs(a - b);
  return std::isnan(distance) ? std::numeric_limits<float>::infinity() : distance;
}

}  // namespace

std::uint64_t fingerprint(const posenc::Positions& positions, posenc::HeadsView<const float> out) {
  std::uint64_t sum = 0;
  for (Index n = 0; n < out.seq; ++n) {
    auto token = mix(static_cast<std::uint64_t>(positions.at(0, n)) + 1);
    for (Index h = 0; h < out.heads; ++h) {
      for (Index d = 0; d < out.dim; ++d) {
        token = mix(token ^ std::bit_cast<std::uint32_t>(out.row(0, n, h)[d]));
      }
    }
    sum += token;
  }
  return sum;
}

Difference difference_from_one_process(const Rope& rope, const Stripes& stripes, const Layer& layer,
                                       const Threads& threads, int rank,
                                       posenc::HeadsView<const float> q, Outputs& outputs) {
  const auto positions = stripes.positions(rank), all = posenc::Positions::range(0, stripes.tokens);
  KeysAndValues kv(layer, stripes.tokens);
  fill_keys_and_values(rope, all, kv);
  Heads expected(1, q.seq, layer.heads, layer.head_dim);
  posenc::attention(
      threads, q, kv.keys(), kv.values(), posenc::bshd(expected),
      {.causal = posenc::Causal::ByPosition, .query_positions = positions, .key_positions = all});

  // A merge is off by 4 ulp of the larger output, and no output is larger than the largest value. Besides, both
  // log-sum-exps come to it rounded by half an ulp, which is the relative error of their side's weight. What
  // attention() itself rounds is less by far, and is not allowed for.
  const auto values = std::as_const(kv).values();
  const float value =
      largest_magnitude(values.data, values.data + values.seq * values.heads * values.dim);
  const auto& lses = outputs.lses;
  const float lse = largest_magnitude(lses.data(), lses.data() + lses.size());
  const float of_merge = 4 * ulp(value) + value * ulp(lse);
  Difference difference{0, static_cast<float>(stripes.ranks - 1) * of_merge,
                        fingerprint(positions, posenc::bshd(std::as_const(expected)))};
  for (Index n = 0; n < expected.size(); ++n) {
    difference.largest =
        (std::max)(difference.largest, distance(expected.data()[n], outputs.out.data()[n]));
  }
  return difference;
}

}  // namespace ring
