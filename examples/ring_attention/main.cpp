// SPDX-License-Identifier: MIT
// Attention over a sequence that no single process holds, and its backward pass. Each rank has a
// share of the tokens. Keys and values go around a ring of processes, then once more with their
// gradients, and the results of blocks are merged or added.
#include "../tour/error.hpp"
#include "../tour/numbers.hpp"
#include "check.hpp"
#include "measure.hpp"
#include "options.hpp"
#include "process.hpp"
#include "report.hpp"
#include "ring.hpp"
#include "share.hpp"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace ring;

/// Returns the fingerprint of a rank's results in a pass.
std::uint64_t bits_of(Pass pass, const posenc::Positions& positions, const Share& share) {
  return pass == Pass::Forward ? fingerprint(positions, posenc::bshd(share.outputs.out))
                               : fingerprint(positions, share.gradients);
}

void suffer(const Fault& fault) {
  if (fault.kind == Fault::Kind::Sleep) std::this_thread::sleep_for(std::chrono::hours(1));
  if (fault.kind == Fault::Kind::Exit) std::_Exit(EXIT_SUCCESS);
}

int run(const Process& process, const Options& options) {
  Eigen::ThreadPool pool(options.threads);
  const Threads threads(&pool, options.threads);
  const Ring ring{.process = process,
                  .stripes = {.tokens = options.tokens, .ranks = process.ranks()},
                  .layer = options.layer,
                  .threads = threads,
                  .limit = options.limit};
  const int rank = process.rank();
  const auto positions = ring.stripes.positions(rank);
  const Rope rope(posenc::Unscaled{.rotary_dim = options.layer.head_dim, .base = 500000});

  Share share(rope, options.layer, positions), again(rope, options.layer, positions);
  share.attend(ring);
  share.go_back(ring);
  if (options.fault.rank == rank) suffer(options.fault);
  Report report{};
  report.forward.spent = again.attend(ring);
  report.backward.spent = again.go_back(ring);
  for (const Pass pass : {Pass::Forward, Pass::Backward}) {
    PassReport& of_pass = report.of(pass);
    of_pass.fingerprint = bits_of(pass, positions, share);
    of_pass.repeats = bits_of(pass, positions, again) == of_pass.fingerprint;
    of_pass.empty_step = measure_empty_step(pass, ring, rope);
  }
  if (options.check) {
    const Differences differences = differences_from_one_process(ring, rope, share);
    report.forward.difference = differences.of_outputs;
    report.backward.difference = differences.of_gradients;
  }

  const auto reports = collect(process, report, options.limit);
  bool is_well = true;
  if (rank == 0) {
    std::cout << posenc::build_info() << '\n';
    for (const Pass pass : {Pass::Forward, Pass::Backward}) {
      is_well &= print_results(pass, options, ring.stripes, reports);
    }
    for (const Pass pass : {Pass::Forward, Pass::Backward}) {
      print_model(pass, options, ring.stripes, reports,
                  measure_rate(pass, ring, rope, ring.stripes.count(rank)));
    }
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
    // All ranks have the same error.
    if (process.rank() == 0) std::cerr << "ring_attention: " << error.what() << "\n\n" << usage();
    return 2;
  } catch (const std::exception& error) {
    // One write, because several ranks may write at the same time.
    std::cerr << tour::cat("ring_attention: rank ", process.rank(), ": ", error.what(), "\n")
              << std::flush;
    // Other ranks whose wait ends now also report, including which rank is late.
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    Process::abort();
  }
} catch (const std::exception& error) {
  std::cerr << "ring_attention: " << error.what() << '\n';
  return EXIT_FAILURE;
}
