// SPDX-License-Identifier: MIT
#include "../tour/files.hpp"
#include "results.hpp"

#include <iomanip>
#include <limits>
#include <sstream>

namespace study {

void write_csv(const Options& options, const Results& results) {
  std::ostringstream scores, speeds;
  scores << std::setprecision(std::numeric_limits<double>::max_digits10)
         << "method,scaling,further_training,seed,length,bits_per_byte\n"
         << "unigram,,no,0,0," << results.unigram_bits << '\n';
  for (const Score& score : results.scores) {
    scores << score.method << ',' << score.scaling << ',' << (score.further ? "yes" : "no") << ','
           << score.seed << ',' << score.length << ',';
    // The learned table does not support these positions.
    if (score.bits) scores << *score.bits;
    scores << '\n';
  }
  speeds << "method,threads,tokens_per_second,share_of_peak,share_in_products,share_in_attention\n";
  for (const auto& [method, speed] : results.speeds) {
    const double of_threads = speed.seconds * options.threads;
    speeds << method << ',' << options.threads << ',' << speed.tokens / speed.seconds << ','
           << speed.operations / speed.seconds / results.peak << ','
           << speed.spent.products / of_threads << ',' << speed.spent.attention / of_threads
           << '\n';
  }
  tour::write_file(options.out / "results.csv", scores.str());
  tour::write_file(options.out / "speed.csv", speeds.str());
}

std::string without_knowledge(const Options& options, const Results& results) {
  std::string names;
  for (const Score& score : results.scores) {
    const bool trained_so = score.scaling.empty() && score.length == options.budget.shape.length;
    // The negation of <, because NaN counts as no knowledge.
    if (trained_so && !(score.bits && *score.bits < results.unigram_bits)) {
      names += (names.empty() ? "" : ", ") + score.method;
    }
  }
  return names;
}

}  // namespace study
