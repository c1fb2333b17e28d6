// SPDX-License-Identifier: MIT
// Looks for inputs that break a documented accuracy bound, against MPFR:
//   accuracy_search [--seed N] [--evaluations N] [--seconds S] [words of names...]
// Hill climbing from random points, for so many evaluations or seconds a bound. Prints the worst that it
// found, with its input; fails where a bound is exceeded.
#include "accuracy/bound.hpp"
#include "support/compare.hpp"
#include <posenc/core/build_info.hpp>
#include <posenc/core/error.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>

namespace {

using accuracy::Bound;
using accuracy::Point;
using accuracy::Range;

struct Budget {
  std::uint64_t seed = 1;
  long evaluations = 2000;
  double seconds = 0;  ///< instead of them, where it is not 0
};

double within(const Range& range, double x) {
  x = std::min(std::max(x, range.low), range.high);
  return range.whole ? std::rint(x) : x;
}

double draw(const Range& range, support::Random& random) {
  if (range.logarithmic) {
    return within(range, std::exp(random.uniform(std::log(range.low), std::log(range.high))));
  }
  return within(range, random.uniform(range.low, range.high));
}

double moved(const Range& range, double x, double step, support::Random& random) {
  if (range.logarithmic) return within(range, x * std::exp(step * random.normal()));
  const double by = (range.whole ? std::max(step * (range.high - range.low), 1.0)
                                 : step * (random.uniform() < 0.5 ? range.high - range.low
                                                                  : std::abs(x) + range.low / 1e6));
  return within(range, x + by * random.normal());
}

double share_of(const Bound& bound, const Point& point) {
  try {
    const double share = bound.share(point);
    return std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
  } catch (const posenc::ConfigError&) {
    return 0;
  } catch (const posenc::PositionError&) {
    return 0;
  }
}

/// The worst share, and where.
std::pair<double, Point> climb(const Bound& bound, const Budget& budget) {
  support::Random random(budget.seed);
  const auto begin = std::chrono::steady_clock::now();
  long count = 0;
  const auto spent = [&] {
    if (budget.seconds == 0) return count >= budget.evaluations;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() >
           budget.seconds;
  };
  std::pair<double, Point> worst{-1, {}};
  while (!spent()) {
    Point at;
    for (const Range& range : bound.ranges) at.push_back(draw(range, random));
    double share = share_of(bound, at);
    ++count;
    for (int fails = 0; fails < 150 && !spent(); ++count) {
      Point next = at;
      const double step = std::exp2(-random.uniform(0, 50));
      const bool all = random.uniform() < 0.2;
      const auto one = static_cast<std::size_t>(random.uniform() * static_cast<double>(at.size()));
      for (std::size_t i = 0; i < at.size(); ++i) {
        if (all || i == one) next[i] = moved(bound.ranges[i], at[i], step, random);
      }
      const double now = share_of(bound, next);
      fails = now > share ? 0 : fails + 1;
      if (now >= share) at = next, share = now;
    }
    if (share > worst.first) worst = {share, at};
  }
  return worst;
}

}  // namespace

int main(int argc, char** argv) {
  Budget budget;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--seed" && i + 1 < argc) {
      budget.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (word == "--evaluations" && i + 1 < argc) {
      budget.evaluations = std::strtol(argv[++i], nullptr, 10);
    } else if (word == "--seconds" && i + 1 < argc) {
      budget.seconds = std::strtod(argv[++i], nullptr);
    } else {
      words.emplace_back(word);
    }
  }
  std::cout << posenc::build_info() << ", seed " << budget.seed << std::endl;
  int exceeded = 0;
  for (const auto& bounds : {accuracy::bias_bounds(), accuracy::elementary_bounds(),
                             accuracy::frequency_bounds(), accuracy::rotation_bounds()}) {
    for (const Bound& bound : bounds) {
      bool wanted = words.empty();
      for (const std::string& word : words) {
        wanted = wanted || bound.name.find(word) != std::string::npos;
      }
      if (!wanted) continue;
      const auto [share, at] = climb(bound, budget);
      std::printf("%s %-48s %.4f of the bound at", share > 1 ? "EXCEEDED" : "holds   ",
                  bound.name.c_str(), share);
      for (const double x : at) std::printf(" %a", x);
      std::printf("\n");
      std::fflush(stdout);
      if (share > 1) ++exceeded;
    }
  }
  return exceeded == 0 ? 0 : 1;
}
