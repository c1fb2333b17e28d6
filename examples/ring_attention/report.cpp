// SPDX-License-Identifier: MIT
#include "report.hpp"

#include "../tour/numbers.hpp"

#include <algorithm>
#include <iomanip>
#include <iostream>
#include <sstream>
#include <string>
#include <type_traits>

namespace ring {
namespace {

Index pairs_of(const Stripes& stripes, int rank) {
  Index pairs = 0;
  for (int of = 0; of < stripes.ranks; ++of) pairs += stripes.pairs(rank, of);
  return pairs;
}

std::string hexadecimal(std::uint64_t number) {
  std::ostringstream out;
  out << std::hex << std::setw(16) << std::setfill('0') << number;
  return out.str();
}

/// Returns a length like "12,345", or "never" without one.
std::string length_from(std::optional<double> tokens) {
  return tokens ? tour::grouped(static_cast<Index>(*tokens)) : "never";
}

}  // namespace

std::vector<Report> collect(const Process& process, const Report& mine, Seconds limit) {
  static_assert(std::is_trivially_copyable_v<Report>);
  const auto letter = [](int peer, int of) {
    return Letter{.name = tour::cat("the report of rank ", of),
                  .peer = peer,
                  .tag = tag::report,
                  .unit = sizeof(Report)};
  };
  std::vector<Request> messages;
  if (process.rank() != 0) {
    messages.push_back(
        Request::send(std::as_bytes(std::span(&mine, 1)), letter(0, process.rank())));
    wait(messages, limit);
    return {};
  }
  std::vector<Report> reports(static_cast<std::size_t>(process.ranks()), mine);
  for (int rank = 1; rank < process.ranks(); ++rank) {
    const auto bytes =
        std::as_writable_bytes(std::span(reports).subspan(static_cast<std::size_t>(rank), 1));
    messages.push_back(Request::receive(bytes, letter(rank, rank)));
  }
  wait(messages, limit);
  return reports;
}

void leave_together(const Process& process, bool& is_well, Seconds limit) {
  const auto letter = [](int peer) {
    return Letter{.name = "word of the end", .peer = peer, .tag = tag::end};
  };
  std::vector<Request> messages;
  const std::span word(&is_well, 1);
  if (process.rank() != 0) {
    messages.push_back(Request::receive(std::as_writable_bytes(word), letter(0)));
  } else {
    for (int rank = 1; rank < process.ranks(); ++rank) {
      messages.push_back(Request::send(std::as_bytes(word), letter(rank)));
    }
  }
  wait(messages, limit);
}

bool print_results(Pass pass, const Options& options, const Stripes& stripes,
                   std::span<const Report> reports) {
  const bool forward = pass == Pass::Forward;
  std::cout << (forward ? "forward\nrank   tokens       pairs  attending   merging   waiting\n"
                        : "backward\nrank   tokens       pairs  attending    adding   waiting\n")
            << std::fixed << std::setprecision(4);
  std::uint64_t fingerprint = 0, of_one_process = 0;
  float largest = 0, allowed = 0;
  bool repeats = true;
  for (int rank = 0; rank < stripes.ranks; ++rank) {
    const PassReport& report = reports[static_cast<std::size_t>(rank)].of(pass);
    std::cout << std::setw(4) << rank << std::setw(9) << stripes.count(rank) << std::setw(12)
              << pairs_of(stripes, rank) << std::setw(9) << report.spent.attending.count() << " s"
              << std::setw(8) << report.spent.joining.count() << " s" << std::setw(8)
              << report.spent.waiting.count() << " s\n";
    repeats = repeats && report.repeats;
    fingerprint += report.fingerprint;
    of_one_process += report.difference.fingerprint;
    largest = (std::max)(largest, report.difference.largest);
    allowed = (std::max)(allowed, report.difference.allowed);
  }
  std::cout << "sent per token: " << stripes.ranks - 1 << " x "
            << tour::grouped(options.layer.token_bytes(pass)) << " bytes\n"
            << (forward ? "bits of the output: " : "bits of the gradients:    ")
            << hexadecimal(fingerprint) << ", "
            << (repeats ? "the same twice\n" : "DIFFERENT the second time\n");
  if (!options.check) return repeats;
  const bool is_close = largest <= allowed;
  std::cout << (forward ? "of one process:     " : "gradients of one process: ")
            << hexadecimal(of_one_process)
            << (forward ? ", largest difference "
                        : ", largest difference, in parts of the largest, ")
            << tour::scientific(static_cast<double>(largest))
            << (is_close ? ", within" : ", BEYOND")
            << (forward ? " merge's bound " : " what is allowed, ")
            << tour::scientific(static_cast<double>(allowed)) << '\n';
  return repeats && is_close;
}

void print_model(Pass pass, const Options& options, const Stripes& stripes,
                 std::span<const Report> reports, double rate_alone) {
  const bool forward = pass == Pass::Forward;
  const Layer& layer = options.layer;
  Rates rates{.pass = pass,
              .alone = rate_alone,
              .in_ring = rate_alone,
              .join_per_token = 0,
              .empty_step = 0};
  for (int rank = 0; rank < stripes.ranks; ++rank) {
    const PassReport& report = reports[static_cast<std::size_t>(rank)].of(pass);
    const Spent& spent = report.spent;
    rates.empty_step = (std::max)(rates.empty_step, report.empty_step.count());
    const double operations =
        static_cast<double>(pairs_of(stripes, rank) * layer.pair_operations(pass));
    rates.in_ring = (std::min)(rates.in_ring, operations / spent.attending.count());
    if (stripes.ranks == 1) continue;
    const double joined = static_cast<double>(stripes.count(rank) * (stripes.ranks - 1));
    rates.join_per_token = (std::max)(rates.join_per_token, spent.joining.count() / joined);
  }
  const Network& network = options.network;
  if (forward) {
    std::cout << std::setprecision(2) << "given: " << network.bytes_per_second / 1e9
              << " GB/s, latency " << network.latency * 1e6 << " us\n";
  }
  std::cout << (forward ? "forward" : "backward")
            << ", measured, in G multiply-adds/s: " << rates.alone / 1e9
            << " of one process alone, " << rates.in_ring / 1e9 << " of the slowest of "
            << stripes.ranks << "\nmeasured, in us: " << rates.join_per_token * 1e6
            << (forward ? " to merge a token, " : " to add a token's gradients, ")
            << rates.empty_step * 1e6
            << " for an empty step\nranks   pays from tokens   hides the network from\n";
  for (int ranks = 2; ranks <= 64; ranks *= 2) {
    std::cout << std::setw(5) << ranks << std::setw(19)
              << length_from(pays_from(layer, ranks, rates, network)) << std::setw(25)
              << length_from(hides_network_from(layer, ranks, rates, network)) << '\n';
  }
}

}  // namespace ring
