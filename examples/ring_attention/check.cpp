// SPDX-License-Identifier: MIT
#include "check.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

namespace ring {
namespace {

using View = posenc::HeadsView<const float>;

View view(const Heads& x) { return posenc::bshd(x); }

/// Returns the distance from a number to the next.
float ulp(float x) { return std::nextafter(x, std::numeric_limits<float>::infinity()) - x; }

/// Returns the distance of two numbers. A NaN, which is not a valid result, has the largest
/// distance.
float distance(float a, float b) {
  const float distance = std::abs(a - b);
  return std::isnan(distance) ? std::numeric_limits<float>::infinity() : distance;
}

/// Returns the tokens of a rank out of all tokens.
View part_of_rank(const Ring& ring, View all) {
  View part = all;
  part.data = all.row(0, ring.rank(), 0);
  part.seq = ring.stripes.count(ring.rank());
  part.seq_stride = ring.ranks() * all.seq_stride;
  return part;
}

float largest_magnitude(View x) {
  float largest = 0;
  for (Index n = 0; n < x.seq; ++n) {
    for (Index h = 0; h < x.heads; ++h) {
      for (Index d = 0; d < x.dim; ++d) largest = (std::max)(largest, std::abs(x.row(0, n, h)[d]));
    }
  }
  return largest;
}

float largest_difference(View a, View b) {
  float largest = 0;
  for (Index n = 0; n < a.seq; ++n) {
    for (Index h = 0; h < a.heads; ++h) {
      for (Index d = 0; d < a.dim; ++d) {
        largest = (std::max)(largest, distance(a.row(0, n, h)[d], b.row(0, n, h)[d]));
      }
    }
  }
  return largest;
}

/// Returns the allowed difference of outputs. A merge has an error of 4 ulp of the larger output,
/// and no output is larger than the largest value. In addition, both log-sum-exps are rounded by
/// half an ulp, which is the relative error of the weight of their side. The rounding errors of
/// attention() itself are far smaller and not included.
float allowed_of_outputs(const Ring& ring, const Share& whole, const Outputs& outputs) {
  const float value = largest_magnitude(whole.kv.values());
  float lse = 0;
  for (Index n = 0; n < outputs.lses.size(); ++n) {
    lse = (std::max)(lse, std::abs(outputs.lses.data()[n]));
  }
  return static_cast<float>(ring.ranks() - 1) * (4 * ulp(value) + value * ulp(lse));
}

/// Allowed difference of the gradients of queries, keys or values, as a share of their largest
/// number. Most of these numbers are sums over hundreds of tokens, added in another order. The
/// bound is not proven. Errors of a ring, such as a block that is left out or added twice, are
/// thousands of times larger.
constexpr float part_allowed = 0x1p-16F;

std::uint64_t fingerprint_of_all(const posenc::Positions& positions, View q, View k, View v) {
  return fingerprint(positions, q) + 3 * fingerprint(positions, k) + 5 * fingerprint(positions, v);
}

}  // namespace

std::uint64_t fingerprint(const posenc::Positions& positions, View x) {
  std::uint64_t sum = 0;
  for (Index n = 0; n < x.seq; ++n) {
    auto token = mix(static_cast<std::uint64_t>(positions.at(0, n)) + 1);
    for (Index h = 0; h < x.heads; ++h) {
      for (Index d = 0; d < x.dim; ++d) {
        token = mix(token ^ std::bit_cast<std::uint32_t>(x.row(0, n, h)[d]));
      }
    }
    sum += token;
  }
  return sum;
}

std::uint64_t fingerprint(const posenc::Positions& positions, const Gradients& gradients) {
  return fingerprint_of_all(positions, view(gradients.q), gradients.kv.keys(),
                            gradients.kv.values());
}

Differences differences_from_one_process(const Ring& ring, const Rope& rope, const Share& share) {
  Share whole(rope, ring.layer, posenc::Positions::range(0, ring.stripes.tokens));
  whole.attend_alone(ring.threads);
  whole.go_back_alone(ring.threads);
  const auto positions = ring.stripes.positions(ring.rank());
  const auto mine = [&](View all) { return part_of_rank(ring, all); };
  const KeysAndValues &kv = share.gradients.kv, &whole_kv = whole.gradients.kv;

  const auto compare = [&](View of_rank, View all) {
    const float difference = largest_difference(of_rank, mine(all));
    return difference == 0 ? 0 : difference / largest_magnitude(all);
  };

  const View out = mine(view(whole.outputs.out));
  Differences differences;
  differences.of_outputs = {.largest = largest_difference(view(share.outputs.out), out),
                            .allowed = allowed_of_outputs(ring, whole, share.outputs),
                            .fingerprint = fingerprint(positions, out)};
  differences.of_gradients = {
      .largest = (std::max)({compare(view(share.gradients.q), view(whole.gradients.q)),
                             compare(kv.keys(), whole_kv.keys()),
                             compare(kv.values(), whole_kv.values())}),
      .allowed = part_allowed,
      .fingerprint = fingerprint_of_all(positions, mine(view(whole.gradients.q)),
                                        mine(whole_kv.keys()), mine(whole_kv.values()))};
  return differences;
}

}  // namespace ring
