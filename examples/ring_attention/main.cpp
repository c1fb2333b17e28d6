// SPDX-License-Identifier: MIT
// Attention over a sequence that no single process holds: each rank has a share of the tokens, keys and values go around a ring of
// processes, and what their blocks give is merged.
#include "../tour/error.hpp"
#include "../tour/numbers.hpp"
#include "attend.hpp"
#include "check.hpp"
#include "measure.hpp"
#include "options.hpp"
#include "process.hpp"
#include "report.hpp"

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using namespace ring;

bool same_bits(const Heads& a, const Heads& b) {
  return std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.size()) * sizeof(float)) == 0;
}

void suffer(const Fault& fault) {
  if (fault.kind == Fault::Kind::Sleep) std::this_thread::sleep_for(std::chrono::hours(1));
  if (fault.kind == Fault::Kind::Exit) std::_Exit(EXIT_SUCCESS);
}

int run(const Process& process, const Options& options) {
  const Layer& layer = options.layer;
  const Stripes stripes{.tokens = options.tokens, .ranks = process.ranks()};
  const int rank = process.rank();
  const Index share = stripes.count(rank);
  const auto positions = stripes.positions(rank);
  const Rope rope(posenc::Unscaled{.rotary_dim = layer.head_dim, .base = 500000});
  Eigen::ThreadPool pool(options.threads);
  const Threads threads(&pool, options.threads);

  Heads tokens_q(1, share, layer.heads, layer.head_dim);
  KeysAndValues own(layer, share);
  fill_queries(rope, positions, posenc::bshd(tokens_q));
  fill_keys_and_values(rope, positions, own);
  const auto q = posenc::bshd(std::as_const(tokens_q));

  const auto pass = [&](Outputs& outputs) {
    return attend_around_ring(process, stripes, layer, threads, options.limit, q, own, outputs);
  };
  Outputs outputs(layer, share), again(layer, share);
  pass(outputs);
  if (options.fault.rank == rank) suffer(options.fault);
  Report report{};
  report.spent = pass(again);
  report.repeats = same_bits(outputs.out, again.out);
  report.fingerprint = fingerprint(positions, posenc::bshd(std::as_const(outputs.out)));
  report.empty_step = measure_empty_step(process, rope, layer, threads, options.limit);
  if (options.check) {
    report.difference =
        difference_from_one_process(rope, stripes, layer, threads, rank, q, outputs);
  }

  const auto reports = collect(process, report, options.limit);
  bool is_well = true;
  if (rank == 0) {
    std::cout << posenc::build_info() << '\n';
    is_well = print_results(options, stripes, reports);
    print_model(options, stripes, reports, measure_rate(rope, layer, threads, share));
    std::cout.flush();
  }
  leave_together(process, is_well, options.limit);
  return is_well ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) try {
  const Process process(argc, argv);
  try {
    const auto options =
        parse_options(std::vector<std::string>(argv + 1, argv + argc), process.ranks());
    if (!options.help) return run(process, options);
    if (process.rank() == 0) std::cout << usage();
    return EXIT_SUCCESS;
  } catch (const tour::UsageError& error) {
    // The same on all ranks.
    if (process.rank() == 0) std::cerr << "ring_attention: " << error.what() << "\n\n" << usage();
    return 2;
  } catch (const std::exception& error) {
    // In one piece, since several ranks may write at once.
    std::cerr << tour::cat("ring_attention: rank ", process.rank(), ": ", error.what(), "\n")
              << std::flush;
    // Others whose wait ends about now say so, too, and with that who is late.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    Process::abort();
  }
} catch (const std::exception& error) {
  std::cerr << "ring_attention: " << error.what() << '\n';
  return EXIT_FAILURE;
}
