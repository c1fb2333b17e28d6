// SPDX-License-Identifier: MIT
#include "support/guarded.hpp"
#include "support/heads.hpp"
#include "tiers.hpp"
#include <posenc/bias/alibi.hpp>

#include <cmath>
#include <vector>

using posenc::Index;

namespace {

/// score + weight * distance as every tier has to round it: for float the bias first, in double.
template <class T>
T expected(double query, double key, double weight, bool symmetric, T score) {
  const double distance = symmetric ? std::abs(query - key) : query - key;
  if constexpr (std::is_same_v<T, double>) {
#if POSENC_HAS_FMA
    return std::fma(weight, distance, score);
#else
    const volatile double product = weight * distance;
    return product + score;
#endif
  } else {
    const volatile T bias = static_cast<T>(weight * distance);
    return score + bias;
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("alibi_row on every tier", "[simd][alibi]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  INFO(Tier::name);
  constexpr Index longest = 4 * TestType::P::width + 1;
  support::Random random(91);
  support::Guarded<double> keys(longest);
  support::Guarded<T> scores(longest);
  for (Index count = 0; count <= longest; ++count) {
    for (const bool front : {true, false}) {
      for (const bool symmetric : {true, false}) {
        for (const double query : {0.0, 20.0, 131071.5}) {
          const double weight = -random.uniform(0, 1);
          scores.clear();
          T* row = scores.at(front, count);
          double* key = keys.at(front, count);
          std::vector<T> want;
          for (Index i = 0; i < count; ++i) {
            key[i] = std::rint(random.uniform(0, 40)) + (query > 100 ? 131000 : 0);
            row[i] = static_cast<T>(random.normal());
            want.push_back(expected(query, key[i], weight, symmetric, row[i]));
          }
          posenc::detail::alibi_row<Tier>(query, key, weight, symmetric, row, count);
          CAPTURE(count, front, symmetric, query);
          CHECK(support::same_bits(row, want.data(), count));
          CHECK(scores.kept_around(row, count));
        }
      }
    }
  }
}
