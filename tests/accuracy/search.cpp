// SPDX-License-Identifier: MIT
// Searches inputs that break a documented accuracy bound, against MPFR: climbs hills from random
// points.
#include "accuracy/search.hpp"

#include "accuracy/bound.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/core/error.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

namespace accuracy {
namespace {

double within(const Range& range, double x) {
  x = std::min(std::max(x, range.low), range.high);
  return range.whole ? std::rint(x) : x;
}

double moved(const Range& range, double x, double step, support::Random& random) {
  if (range.logarithmic) return within(range, x * std::exp(step * random.normal()));
  const double by = (range.whole ? std::max(step * (range.high - range.low), 1.0)
                                 : step * (random.uniform() < 0.5 ? range.high - range.low
                                                                  : std::abs(x) + range.low / 1e6));
  return within(range, x + by * random.normal());
}

/// Returns the worst share and its point.
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

/// Prints a result. Returns the number of exceeded bounds: 0 or 1.
int report(const Bound& bound, double share, const Point& at) {
  std::printf("%s %-48s %.4f of the bound at", share > 1 ? "EXCEEDED" : "holds   ",
              bound.name.c_str(), share);
  for (const double x : at) std::printf(" %a", x);
  std::printf("\n");
  std::fflush(stdout);
  return share > 1 ? 1 : 0;
}

}  // namespace

double draw(const Range& range, support::Random& random) {
  if (range.logarithmic) {
    return within(range, std::exp(random.uniform(std::log(range.low), std::log(range.high))));
  }
  return within(range, random.uniform(range.low, range.high));
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

std::vector<Bound> all_bounds() {
  std::vector<Bound> all;
  for (const auto& bounds :
       {attention_bounds(), bias_bounds(), elementary_bounds(), frequency_bounds(), resize_bounds(),
        rotation_bounds(), wild_settings()}) {
    all.insert(all.end(), bounds.begin(), bounds.end());
  }
  return all;
}

int try_cases(const std::string& path) {
  const std::vector<Bound> bounds = all_bounds();
  std::ifstream file(path);
  int failed = 0, tried = 0;
  for (std::string line; std::getline(file, line);) {
    constexpr std::size_t name_begin = 9, name_width = 48;
    constexpr std::string_view before = " of the bound at";
    const auto at = line.find(before);
    if (at == std::string::npos) continue;
    std::string name = line.substr(name_begin, name_width);
    name.erase(name.find_last_not_of(' ') + 1);
    const auto bound = std::find_if(bounds.begin(), bounds.end(),
                                    [&](const Bound& one) { return one.name == name; });
    Point point;
    const char* text = line.c_str() + at + before.size();
    for (char* end = nullptr;; text = end) {
      const double x = std::strtod(text, &end);
      if (end == text) break;
      point.push_back(x);
    }
    if (bound == bounds.end() || point.size() != bound->ranges.size()) {
      std::cout << "no such bound: " << line << std::endl;
      ++failed;
      continue;
    }
    ++tried;
    failed += report(*bound, share_of(*bound, point), point);
  }
  if (tried == 0) std::cout << "no cases in " << path << std::endl;
  return tried == 0 ? 1 : failed;
}

int search(const Budget& budget, const std::vector<std::string>& words) {
  int exceeded = 0;
  for (const Bound& bound : all_bounds()) {
    bool wanted = words.empty();
    for (const std::string& word : words) {
      wanted = wanted || bound.name.find(word) != std::string::npos;
    }
    if (!wanted) continue;
    const auto [share, at] = climb(bound, budget);
    exceeded += report(bound, share, at);
  }
  return exceeded;
}

}  // namespace accuracy
