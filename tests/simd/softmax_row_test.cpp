// SPDX-License-Identifier: MIT
#include "support/guarded.hpp"
#include "support/worse.hpp"
#include "tiers.hpp"
#include <posenc/simd/softmax.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using posenc::Index;

namespace {

template <class T>
constexpr T lowest = -std::numeric_limits<T>::infinity();

template <class Tier, class T>
std::vector<T> softmax(const std::vector<T>& scores, bool front = false) {
  const auto count = static_cast<Index>(scores.size());
  support::Guarded<T> memory(count);
  T* row = memory.at(front, count);
  std::copy(scores.begin(), scores.end(), row);
  posenc::detail::softmax_row<Tier>(row, count);
  CHECK(memory.kept_around(row, count));
  return {row, row + count};
}

template <class T>
std::vector<T> random_scores(support::Random& random, Index count, double spread) {
  std::vector<T> scores(static_cast<std::size_t>(count));
  for (T& x : scores) x = static_cast<T>(spread * random.normal());
  return scores;
}

/// The greatest error as a share of what is promised: 3 ulp of the greatest terms. A term that lies
/// d below them loses d roundings of the difference, and the sum one for each step of a lane's chain.
template <class T>
double worst_share(const std::vector<T>& scores, const std::vector<T>& values, Index width) {
  const auto high = static_cast<long double>(*std::max_element(scores.begin(), scores.end()));
  long double total = 0;
  for (const T x : scores) total += std::exp(static_cast<long double>(x) - high);
  const auto steps = static_cast<double>(static_cast<Index>(scores.size()) / width);
  double worst = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const long double below = high - static_cast<long double>(scores[i]);
    const double want = static_cast<double>(std::exp(-below) / total);
    const double ulps = 3 + 0.5 * static_cast<double>(below) + 0.5 * steps;
    const double allowed = ulps * static_cast<double>(std::numeric_limits<T>::epsilon()) * want +
                           2 * static_cast<double>(std::numeric_limits<T>::denorm_min());
    worst = support::worse(worst, std::abs(static_cast<double>(values[i]) - want) / allowed);
  }
  return worst;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("softmax_row on every tier: any length", "[simd][softmax]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  constexpr Index width = TestType::P::width;
  INFO(Tier::name);
  support::Random random(71);
  std::vector<Index> lengths{257, 1000};
  for (Index n = 1; n <= 4 * width + 1; ++n) lengths.push_back(n);
  for (const Index n : lengths) {
    for (const double spread : {0.01, 1.0, 30.0}) {
      const auto scores = random_scores<T>(random, n, spread);
      CAPTURE(n, spread);
      const auto values = softmax<Tier>(scores, n % 2 == 0);
      CHECK(worst_share(scores, values, width) <= 1);
      // Exact shifts of all scores change nothing.
      auto shifted = scores;
      for (T& x : shifted) x = std::round(x * 64) / 64;
      const auto base = softmax<Tier>(shifted);
      for (T& x : shifted) x += 1024;
      CHECK(softmax<Tier>(shifted) == base);
    }
  }
  CHECK(softmax<Tier>(std::vector<T>{}).empty());
}

TEMPLATE_LIST_TEST_CASE("softmax_row on every tier: hidden scores are zeros", "[simd][softmax]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  constexpr Index width = TestType::P::width;
  INFO(Tier::name);
  support::Random random(72);
  for (Index n = 1; n <= 3 * width + 1; ++n) {
    CAPTURE(n);
    const std::vector<T> hidden(static_cast<std::size_t>(n), lowest<T>);
    for (const T value : softmax<Tier>(hidden)) CHECK(tiers::bits(value) == 0);
    // One score left, anywhere.
    for (std::size_t at = 0; at < hidden.size(); ++at) {
      auto one = hidden;
      one[at] = -7;
      const auto values = softmax<Tier>(one);
      for (std::size_t i = 0; i < one.size(); ++i) CHECK(values[i] == (i == at ? 1 : 0));
    }
    // Hidden scores behind the others change no bit.
    const auto scores = random_scores<T>(random, n, 3);
    const auto values = softmax<Tier>(scores);
    for (Index more = 1; more <= 2 * width + 1; ++more) {
      auto longer = scores;
      longer.resize(static_cast<std::size_t>(n + more), lowest<T>);
      const auto longer_values = softmax<Tier>(longer);
      CHECK(std::memcmp(longer_values.data(), values.data(), values.size() * sizeof(T)) == 0);
      CHECK(std::all_of(longer_values.begin() + static_cast<std::ptrdiff_t>(n), longer_values.end(),
                        [](T x) { return tiers::bits(x) == 0; }));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("softmax_row on every tier: NaN stays", "[simd][softmax]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  constexpr Index width = TestType::P::width;
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  INFO(Tier::name);
  support::Random random(73);
  for (Index n = 1; n <= 2 * width + 1; ++n) {
    for (std::size_t at = 0; at < static_cast<std::size_t>(n); ++at) {
      auto scores = random_scores<T>(random, n, 1);
      scores[at] = nan;
      CAPTURE(n, at);
      for (const T value : softmax<Tier>(scores)) CHECK(std::isnan(value));
      std::vector<T> hidden(static_cast<std::size_t>(n), lowest<T>);
      hidden[at] = nan;
      CHECK(std::isnan(softmax<Tier>(hidden)[at]));
    }
  }
}
