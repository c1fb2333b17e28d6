// SPDX-License-Identifier: MIT
// Trains small language models on short texts, one per positional encoding, and evaluates them on
// longer texts.
#include "../tour/error.hpp"
#include "../tour/numbers.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "results.hpp"
#include "study.hpp"
#include "text.hpp"
#include <posenc/core/build_info.hpp>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <string>
#include <vector>

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

namespace {

/// True if lines on standard error can be overwritten.
bool errors_are_on_terminal() {
#if __has_include(<unistd.h>)
  return isatty(STDERR_FILENO) != 0;
#else
  return false;
#endif
}

std::atomic<bool> stop = false;
static_assert(std::atomic<bool>::is_always_lock_free);  // required in a signal handler

void ask_to_stop(int) {
  stop = true;
  std::signal(SIGINT, SIG_DFL);  // a second Ctrl-C ends the program
}

int run(const study::Options& options) {
  const auto paths = options.text.empty() ? std::vector{study::default_text()} : options.text;
  const study::Text text = study::read_text(paths);
  std::cerr << posenc::build_info() << "\nText: " << text.training_files << " files of "
            << tour::grouped(static_cast<study::Index>(text.training.size()))
            << " bytes to train on, " << text.held_out_files << " of "
            << tour::grouped(static_cast<study::Index>(text.held_out.size())) << " held out\n";
  study::Progress progress(std::cerr, errors_are_on_terminal(), study::Study::all_bytes(options));
  const study::Results results = study::Study(options, text, progress, stop).run();
  study::write_csv(options, results);
  study::report(options, text, results);
  const std::string failed = study::without_knowledge(options, results);
  if (failed.empty()) return EXIT_SUCCESS;
  std::cerr << "train_short_test_long: no better than the frequencies of bytes: " << failed << '\n';
  return EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto options = study::parse_options({argv + 1, argv + argc});
    if (options.help) {
      std::cout << study::usage();
      return EXIT_SUCCESS;
    }
    std::signal(SIGINT, ask_to_stop);
    return run(options);
  } catch (const study::Interrupted& interruption) {
    std::cerr << "train_short_test_long: " << interruption.what() << '\n';
    return 130;
  } catch (const tour::UsageError& error) {
    std::cerr << "train_short_test_long: " << error.what() << "\n\n" << study::usage();
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "train_short_test_long: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
