// SPDX-License-Identifier: MIT
// Errors of posenc on this tier, in units of the last place, with the bounds that its docstrings promise:
//   posenc_accuracy [--seed N] [--stride N] [--samples N] [--out FOLDER] [--frequency N] [parts...]
//       prints a histogram of errors and the worst input for each function and type, and what other
//       methods give; fails if a bound is exceeded. Every N-th float is tried, with --stride 1 all
//       of them, on all processors: some 40 minutes on two cores with AVX-512. --out writes
//       accuracy_<tier>.csv and comparison_<tier>.csv. Parts are angles, functions, conversions,
//       attention, bounds and comparison; --frequency N tries one of the 16 frequencies of angles.
//   posenc_accuracy --search [--seed N] [--evaluations N] [--seconds S] [words of names...]
//       searches the worst input of each bound for N evaluations or S seconds
//   posenc_accuracy --cases FILE
//       tries inputs that were found before, in lines as --search prints them
//   posenc_accuracy --docstrings FOLDER
//       compares the bounds with the docstrings of the headers in include/posenc
// It exits with 77 if the processor lacks the tier's instructions.
#include "accuracy/bound.hpp"
#include "accuracy/promises.hpp"
#include "accuracy/search.hpp"
#include "accuracy/survey.hpp"
#include "accuracy/truth.hpp"
#include "support/processor_can.hpp"
#include <posenc/core/build_info.hpp>
#include <posenc/simd/tier.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>

namespace {

using accuracy::Histogram;

std::string tier_name() {
  return std::string(posenc::tier::Best::name) + (POSENC_HAS_FMA ? "" : ", no FMA");
}

/// Compares the fast true values of cos and sin with MPFR. Returns the number of differences.
int check_truth(std::uint64_t seed) {
  support::Random random(seed);
  int wrong = 0;
  for (int n = 0; n < 400; ++n) {
    const auto position = static_cast<float>(std::exp2(random.uniform(-20, 49)));
    const double w = random.uniform(0, 2);
    const auto p = static_cast<double>(position);
    const auto fast = accuracy::cos_sin_of(accuracy::angle_of(p, w));
    const accuracy::Mpfr angle = accuracy::Mpfr(p) * accuracy::Mpfr(w);
    const auto off = [](long double got, const accuracy::Mpfr& want) {
      const auto high = static_cast<double>(got);
      const auto low = static_cast<double>(got - static_cast<long double>(high));
      return support::absolute_error(accuracy::Mpfr(high) + accuracy::Mpfr(low), want);
    };
    if (!(off(fast.cos, cos(angle)) < 0x1p-60 && off(fast.sin, sin(angle)) < 0x1p-60)) ++wrong;
  }
  if (wrong > 0) std::printf("%d true values differ from those of MPFR\n", wrong);
  return wrong;
}

/// Returns a header's text without comment marks, with single spaces.
std::string prose_of(const std::string& path) {
  std::ifstream file(path);
  std::string prose;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (word != "///" && word != "//") prose += word + ' ';
    }
  }
  return prose;
}

int check_docstrings(const std::string& folder) {
  int wrong = 0;
  for (const promises::Promise* promise : promises::all) {
    if (prose_of(folder + "/" + promise->header).find(promise->text()) != std::string::npos)
      continue;
    std::printf("%s does not say \"%s\"\n", promise->header, promise->text().c_str());
    ++wrong;
  }
  std::printf("%zu promises, %d of them not in the docstrings\n", std::size(promises::all), wrong);
  return wrong;
}

/// Prints a histogram and writes its line. Returns 1 if the bound is exceeded.
int print(const Histogram& errors, std::ostream& file) {
  const bool exceeded = errors.share() > 1;
  std::printf("%s %s: %lld inputs, worst %.4g %s, %.3f of the bound (%s) at %s\n   ",
              exceeded ? "EXCEEDED" : "holds   ", errors.name().c_str(), errors.inputs(),
              errors.worst(), errors.unit().c_str(), errors.share(), errors.promise().c_str(),
              errors.worst_input().c_str());
  file << tier_name() << ';' << errors.name() << ';' << errors.unit() << ';' << errors.promise()
       << ';' << errors.inputs() << ';' << errors.worst() << ';' << errors.share() << ';'
       << errors.worst_input();
  for (std::size_t i = 0; i < Histogram::ends.size(); ++i) {
    if (errors.counts()[i] > 0) std::printf(" <= %g: %lld", Histogram::ends[i], errors.counts()[i]);
    file << ';' << errors.counts()[i];
  }
  std::printf("\n");
  std::fflush(stdout);
  file << '\n';
  return exceeded ? 1 : 0;
}

/// Prints the errors of posenc and of other methods, and writes a line of each.
void print_comparison(const accuracy::Extent& extent, std::ostream& file) {
  std::printf("largest error of cos and sin, 64 pairs, base 10000, positions below");
  for (const double limit : accuracy::comparison_limits) std::printf(" %.0f", limit);
  std::printf("\n");
  for (const auto& [method, errors] : accuracy::compare_methods(extent)) {
    std::printf("%-52s", method.c_str());
    file << method;
    for (const double error : errors) {
      std::printf(" %9.2g", error);
      file << ';' << error;
    }
    std::printf("\n");
    file << '\n';
  }
}

int run_survey(const accuracy::Extent& extent, const std::string& folder,
               const std::vector<std::string>& parts) {
  std::size_t found = 0;
  const auto is_wanted = [&](const char* part) {
    if (parts.empty()) return true;
    const bool wanted = std::find(parts.begin(), parts.end(), part) != parts.end();
    found += wanted ? 1 : 0;
    return wanted;
  };
  std::ofstream file, comparison;
  if (!folder.empty()) {
    const std::string tier = tier_name().substr(0, tier_name().find(','));
    file.open(folder + "/accuracy_" + tier + ".csv");
    comparison.open(folder + "/comparison_" + tier + ".csv");
    file
        << "tier;name;unit;promise;inputs;worst;share;input;<= 0.5;<= 1;<= 1.5;<= 2;<= 2.5;<= 3;<= "
           "4;more\n";
    comparison << "method";
    for (const double limit : accuracy::comparison_limits) comparison << ';' << limit;
    comparison << '\n';
  }
  int failed = check_truth(extent.seed);
  const std::pair<const char*, std::vector<Histogram> (*)(const accuracy::Extent&)> surveys[] = {
      {"angles", accuracy::survey_angles},
      {"functions", accuracy::survey_functions},
      {"conversions", accuracy::survey_conversions},
      {"attention", accuracy::survey_attention},
      {"bounds", accuracy::survey_bounds}};
  for (const auto& [part, survey] : surveys) {
    if (!is_wanted(part)) continue;
    for (const Histogram& errors : survey(extent)) failed += print(errors, file);
  }
  if (is_wanted("comparison")) print_comparison(extent, comparison);
  if (found != parts.size()) {
    std::printf("unknown or repeated part\n");
    ++failed;
  }
  if (!folder.empty() && !(file.flush() && comparison.flush())) {
    std::printf("cannot write to %s\n", folder.c_str());
    ++failed;
  }
  return failed;
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int skipped = 77;
  if (!support::processor_can()) {
    std::cout << "skipped: this processor lacks what the program was compiled for\n";
    return skipped;
  }
  accuracy::Extent extent;
  accuracy::Budget budget;
  std::vector<std::string> words;
  std::string cases, docstrings, folder;
  bool searches = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&]() -> const char* { return i + 1 < argc ? argv[++i] : ""; };
    if (word == "--search") {
      searches = true;
    } else if (word == "--seed") {
      extent.seed = budget.seed = std::strtoull(value(), nullptr, 10);
    } else if (word == "--evaluations") {
      budget.evaluations = std::strtol(value(), nullptr, 10);
    } else if (word == "--seconds") {
      budget.seconds = std::strtod(value(), nullptr);
    } else if (word == "--stride") {
      extent.stride = std::max<std::uint64_t>(std::strtoull(value(), nullptr, 10), 1);
    } else if (word == "--samples") {
      extent.samples = std::max(std::strtol(value(), nullptr, 10), 1L);
    } else if (word == "--frequency") {
      extent.frequency = std::clamp(std::atoi(value()), 0, 15);
    } else if (word == "--out") {
      folder = value();
    } else if (word == "--cases") {
      cases = value();
    } else if (word == "--docstrings") {
      docstrings = value();
    } else if (!word.starts_with("-")) {
      words.push_back(word);
    } else {
      std::cout << "unknown argument " << word << '\n';
      return 2;
    }
  }
  std::cout << posenc::build_info() << ", seed " << extent.seed << std::endl;
  int failed = 0;
  if (!cases.empty()) {
    failed = accuracy::try_cases(cases);
  } else if (!docstrings.empty()) {
    failed = check_docstrings(docstrings);
  } else if (searches) {
    failed = accuracy::search(budget, words);
  } else {
    failed = run_survey(extent, folder, words);
  }
  return failed == 0 ? 0 : 1;
}
