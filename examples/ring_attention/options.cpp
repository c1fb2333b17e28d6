// SPDX-License-Identifier: MIT
#include "options.hpp"

#include "../tour/error.hpp"
#include "../tour/numbers.hpp"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

namespace ring {
namespace {

using tour::cat;
using tour::UsageError;

template <class Number>
Number number_from(const std::string& name, const std::string& text, Number least, Number most) {
  Number number{};
  std::istringstream in(text);
  if (!(in >> number) || in.peek() != std::istringstream::traits_type::eof() || number < least ||
      number > most) {
    throw UsageError(cat(name, " needs a number from ", least, " to ", most, ", not ", text));
  }
  return number;
}

constexpr std::array<std::string_view, 9> valued{"--tokens",    "--heads",   "--kv-heads",
                                                 "--head-dim",  "--threads", "--limit",
                                                 "--bandwidth", "--latency", "--fault"};

/// Parses a test fault, which usage() does not list: a rank that sleeps or exits before its second
/// pass.
Fault fault_from(const std::string& text, int ranks) {
  const auto colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (colon == std::string::npos || (kind != "sleep" && kind != "exit")) {
    throw UsageError("--fault needs sleep:RANK or exit:RANK, not " + text);
  }
  return {.kind = kind == "sleep" ? Fault::Kind::Sleep : Fault::Kind::Exit,
          .rank = number_from("--fault", text.substr(colon + 1), 0, ranks - 1)};
}

}  // namespace

std::string usage() {
  return R"(mpirun -n RANKS ring_attention [options]

Causal attention over a sequence that is distributed over RANKS processes, forward and backward. Keys, values and then
their gradients go around the ring.

  --tokens N        length of the sequence, at least RANKS; default 2048
  --heads N, --kv-heads N, --head-dim N
                    sizes of the layer; default 8, 2 and 64
  --threads N       threads per process; default 1
  --limit SECONDS   longest wait for a message; default 60
  --no-check        skip the comparison with one process, for which each rank needs all tokens
  --bandwidth GB/S  bandwidth of the network, for the model of times; default 1.25
  --latency US      latency of the network in microseconds; default 30
  --help            this text

The exit status is 0; 1 if a rank is lost or late, if a second run gives other bits, or if the difference from one process
exceeds merge's bound or that of gradients; 2 if the command line is invalid.
)";
}

Options parse_options(const std::vector<std::string>& arguments, int ranks) {
  Options options;
  constexpr Index most_tokens = Index{1} << 40;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      return options;
    }
    if (name == "--no-check") {
      options.check = false;
      continue;
    }
    if (std::find(valued.begin(), valued.end(), name) == valued.end()) {
      throw UsageError("unknown option " + name);
    }
    if (++i == arguments.size()) throw UsageError(name + " needs a value");
    const std::string& value = arguments[i];
    if (name == "--tokens") {
      options.tokens = number_from<Index>(name, value, 1, most_tokens);
    } else if (name == "--heads") {
      options.layer.heads = number_from<Index>(name, value, 1, 4096);
    } else if (name == "--kv-heads") {
      options.layer.kv_heads = number_from<Index>(name, value, 1, 4096);
    } else if (name == "--head-dim") {
      options.layer.head_dim = number_from<Index>(name, value, 2, 4096);
    } else if (name == "--threads") {
      options.threads = number_from(name, value, 1, 1024);
    } else if (name == "--limit") {
      options.limit = Seconds(number_from(name, value, 0.001, 1e6));
    } else if (name == "--bandwidth") {
      options.network.bytes_per_second = 1e9 * number_from(name, value, 1e-6, 1e6);
    } else if (name == "--latency") {
      options.network.latency = 1e-6 * number_from(name, value, 0.0, 1e9);
    } else {
      options.fault = fault_from(value, ranks);
    }
  }
  if (options.tokens < ranks) {
    throw UsageError(
        cat("--tokens must be at least the number of ranks, ", ranks, ", but is ", options.tokens));
  }
  const auto& [heads, kv_heads, head_dim] = options.layer;
  if (heads % kv_heads != 0)
    throw UsageError(cat("--kv-heads must divide --heads, ", heads, ", but is ", kv_heads));
  if (head_dim % 2 != 0)
    throw UsageError(
        cat("--head-dim must be even, because channels are rotated in pairs, but is ", head_dim));
  return options;
}

}  // namespace ring
