// SPDX-License-Identifier: MIT
#include "cost.hpp"

#include <algorithm>

namespace ring {
namespace {

/// Costs of a step of the ring.
struct Step {
  double work, transfer;
};

double seconds_to_move(Index bytes_of_token, double tokens, const Network& network) {
  return network.latency + tokens * static_cast<double>(bytes_of_token) / network.bytes_per_second;
}

Step step_of(const Layer& layer, double tokens, int ranks, const Rates& rates,
             const Network& network) {
  const double share = tokens / ranks;
  const double multiply_adds =
      share * share / 2 * static_cast<double>(layer.pair_operations(rates.pass));
  return {.work = multiply_adds / rates.in_ring + share * rates.join_per_token,
          .transfer = seconds_to_move(layer.token_bytes(rates.pass), share, network)};
}

constexpr double longest = 1e12;

/// Returns the smallest number of tokens, between one per rank and `longest`, from which on `holds`
/// is true; nothing if it is never true.
template <class Holds>
std::optional<double> first_of(int ranks, const Holds& holds) {
  double low = ranks, high = longest;
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
  return tokens * tokens / 2 * static_cast<double>(layer.pair_operations(rates.pass)) / rates.alone;
}

double seconds_of_ring(const Layer& layer, double tokens, int ranks, const Rates& rates,
                       const Network& network) {
  const auto [work, transfer] = step_of(layer, tokens, ranks, rates, network);
  const double home = rates.pass == Pass::Forward
                          ? 0
                          : seconds_to_move(layer.token_bytes(), tokens / ranks, network);
  return (ranks - 1) * (std::max)(work, transfer) + work + home + ranks * rates.empty_step;
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
