// SPDX-License-Identifier: MIT
#include "cost.hpp"

#include <algorithm>

namespace ring {
namespace {

/// What a step of the ring takes.
struct Step {
  double work, transfer;
};

Step step_of(const Layer& layer, double tokens, int ranks, const Rates& rates,
             const Network& network) {
  const double share = tokens / ranks;
  const double multiply_adds = share * share / 2 * static_cast<double>(layer.pair_operations());
  const double bytes = share * static_cast<double>(layer.token_bytes());
  return {.work = multiply_adds / rates.in_ring + share * rates.merge_per_token,
          .transfer = network.latency + bytes / network.bytes_per_second};
}

constexpr double most_tokens = 1e12;

/// The least number of tokens, of those from one a rank up to most_tokens, for which something holds that holds for all larger ones;
/// nothing where it holds for none.
template <class Holds>
std::optional<double> first_of(int ranks, const Holds& holds) {
  double low = ranks, high = most_tokens;
  if (holds(low)) return low;
  if (!holds(high)) return std::nullopt;
  while (high - low > 1) {
    const double middle = (low + high) / 2;
    (holds(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace

double seconds_of_one_process(const Layer& layer, double tokens, const Rates& rates) {
  return tokens * tokens / 2 * static_cast<double>(layer.pair_operations()) / rates.alone;
}

double seconds_of_ring(const Layer& layer, double tokens, int ranks, const Rates& rates,
                       const Network& network) {
  const auto [work, transfer] = step_of(layer, tokens, ranks, rates, network);
  return (ranks - 1) * (std::max)(work, transfer) + work + ranks * rates.empty_step;
}

std::optional<double> pays_from(const Layer& layer, int ranks, const Rates& rates,
                                const Network& network) {
  return first_of(ranks, [&](double tokens) {
    return seconds_of_ring(layer, tokens, ranks, rates, network) <
           seconds_of_one_process(layer, tokens, rates);
  });
}

std::optional<double> hides_network_from(const Layer& layer, int ranks, const Rates& rates,
                                         const Network& network) {
  return first_of(ranks, [&](double tokens) {
    const auto [work, transfer] = step_of(layer, tokens, ranks, rates, network);
    return transfer <= work;
  });
}

}  // namespace ring
