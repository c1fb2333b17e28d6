// SPDX-License-Identifier: MIT
// Tiles of distances, and the kernels of ALiBi that fill them, on every tier.
#include "bias/tiles.hpp"
#include "simd/tiers.hpp"
#include "support/guarded.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/detail/distances.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace distances_test {

using posenc::Index;
using tiles::run;
using tiles::Values;

namespace {

/// Returns weight times the distance, or times its magnitude, rounded once to T.
template <class T>
T expected(double distance, double weight, bool symmetric) {
  const volatile double product = weight * (symmetric ? std::abs(distance) : distance);
  return static_cast<T>(product) + T{0};  // no negative zero
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("count_leading_consecutive: every tier", "[simd][distances]", tiers::All) {
  const auto consecutive = [](const Values& x) {
    return posenc::detail::are_consecutive<TestType>(std::span(x));
  };
  CHECK(!consecutive({}));
  for (Index count = 1; count <= 35; ++count) {
    CAPTURE(count);
    for (const double first : {0.0, -17.0, 131072.0, 0x1p51}) {
      CHECK(consecutive(run(first, count)));
    }
    for (const double first : {0.5, -0.25, 0x1p52, std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()}) {
      CHECK(!consecutive(run(first, count)));
    }
    for (Index at = 1; at < count; ++at) {
      for (const double step : {-1.0, 1.0, 0x1p-10, 100.0}) {
        Values broken = run(8, count);
        for (Index j = at; j < count; ++j) broken[static_cast<std::size_t>(j)] += step;
        CHECK(!consecutive(broken));
      }
      for (const double odd :
           {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
        Values broken = run(8, count);
        broken[static_cast<std::size_t>(at)] = odd;
        CHECK(!consecutive(broken));
      }
    }
  }
}

TEST_CASE("count_leading_consecutive: integers that ascend by one", "[distances]") {
  using posenc::detail::count_leading_consecutive;
  CHECK(count_leading_consecutive(run(3, 5), 32) == 5);
  CHECK(count_leading_consecutive(run(3, 5), 4) == 4);
  CHECK(count_leading_consecutive(run(0.5, 5), 32) == 1);
  CHECK(count_leading_consecutive(run(0x1p52, 5), 32) == 1);
  CHECK(count_leading_consecutive(Values{0, 0, 1, 2}, 32) == 1);
  CHECK(count_leading_consecutive(Values{0, 1, 2, 0, 1}, 32) == 3);
}

TEST_CASE("add_toeplitz: consecutive queries share as many distances as they need", "[distances]") {
  // 17 rows of 20 keys, padded to 32, begin up to 16 values after the first.
  const Values keys = run(3, 20), queries = run(40, 17);
  Index count = 0;
  double farthest = 0, values[64];
  posenc::detail::ConsecutiveKeys block(true, keys);
  const Index rows = block.evaluate_rows(
      std::span<const double>(queries),
      [&](double from, const double*, double*, Index n) { farthest = from, count += n; }, values);
  CHECK(rows == 17);
  CHECK(farthest == 53);
  CHECK(count == 48);
}

TEMPLATE_LIST_TEST_CASE("alibi_values: every tier", "[simd][distances]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  INFO(Tier::name);
  support::Random random(91);
  for (const Index count : {16, 48, 288}) {
    Values keys(static_cast<std::size_t>(count));
    for (double& key : keys) key = std::rint(random.uniform(-20, 60));
    keys[0] = 20;
    keys[1] = -131071.5;
    for (const bool symmetric : {true, false}) {
      const double weight = -random.uniform(0, 1);
      support::Guarded<T> values(count);
      T* to = values.last(count);
      posenc::detail::alibi_values<Tier>(weight, symmetric, 20, keys.data(), to, count);
      std::vector<T> want;
      for (const double key : keys) want.push_back(expected<T>(20 - key, weight, symmetric));
      CHECK(support::same_bits(to, want.data(), count));

      for (T& value : want) value += T{3};
      std::fill_n(to, count, T{3});
      posenc::detail::add_alibi_values<Tier>(weight, symmetric, 20, keys.data(), to, count);
      CHECK(support::same_bits(to, want.data(), count));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("add_values: every tier", "[simd][distances]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  INFO(Tier::name);
  constexpr Index longest = 4 * TestType::P::width + 1;
  support::Random random(17);
  support::Guarded<T> scores(longest), values(longest);
  for (Index count = 0; count <= longest; ++count) {
    for (const bool front : {true, false}) {
      scores.clear();
      T *score = scores.at(front, count), *value = values.at(front, count);
      std::vector<T> want;
      for (Index i = 0; i < count; ++i) {
        score[i] = static_cast<T>(random.normal());
        value[i] = static_cast<T>(random.normal());
        want.push_back(score[i] + value[i]);
      }
      posenc::detail::add_values<Tier>(value, score, count);
      CAPTURE(count, front);
      CHECK(support::same_bits(score, want.data(), count));
      CHECK(scores.kept_around(score, count));
    }
  }
}

TEMPLATE_LIST_TEST_CASE("add_toeplitz: every tier", "[simd][distances]", tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  INFO(Tier::name);
  using posenc::detail::pad_distances;
  support::Random random(18);
  for (const Index rows : {2, 12, 17, 33}) {
    for (const Index columns : {1, 7, 16, 32, 45, 80}) {
      CAPTURE(rows, columns);
      const Index stride = columns + 3, readable = pad_distances(rows) + pad_distances(columns);
      support::Guarded<T> scores(rows * stride), values(readable);
      T *score = scores.last(rows * stride), *value = values.last(readable);
      for (Index u = 0; u < readable; ++u) value[u] = static_cast<T>(random.normal());
      std::vector<T> want;
      for (Index i = 0; i < rows * stride; ++i) {
        const Index r = i / stride, k = i % stride;
        score[i] = static_cast<T>(random.normal());
        want.push_back(k < columns ? score[i] + value[rows - 1 - r + k] : score[i]);
      }
      posenc::detail::add_toeplitz<Tier>(value, rows, columns, score, stride);
      CHECK(support::same_bits(score, want.data(), rows * stride));
    }
  }
}

TEMPLATE_TEST_CASE("distances: every score gets the value of its own distance", "[distances]",
                   float, double) {
  using Real = TestType;
  for (const auto& [queries, keys] : {std::pair<Values, Values>{run(40, 70), run(3, 2500)},
                                      {run(0, 1), run(5, 1300)},
                                      {run(0.5, 3), run(0, 17)},
                                      {Values{4, 5, 6, 6, 7, 1, 2, 3}, run(0, 1025)},
                                      // The ends look consecutive, the positions between are not.
                                      {Values{4, 6, 5, 7, 8}, run(0, 40)},
                                      {Values{4, 5, 7, 6, 8}, run(0, 40)},
                                      {run(9, 100), Values{0, 2, 1, 3}},
                                      {Values{4, 6, 5, 7}, Values{0, 2, 1, 3}}}) {
    std::vector<Real> seen(queries.size() * keys.size(), Real{-1000000});
    posenc::detail::for_each_distance_row<Real>(
        queries, keys,
        [](double from, const double* to, Real* values, Index count) {
          CHECK(count % posenc::detail::distance_padding == 0);
          for (Index u = 0; u < count; ++u) values[u] = static_cast<Real>(from - to[u]);
        },
        [&, columns = static_cast<Index>(keys.size())](Index i, Index j, Index n,
                                                       const Real* values) {
          for (Index u = 0; u < n; ++u)
            seen[static_cast<std::size_t>(i * columns + j + u)] = values[u];
        });
    Index wrong = 0;
    for (std::size_t i = 0; i < queries.size(); ++i) {
      for (std::size_t j = 0; j < keys.size(); ++j) {
        wrong += seen[i * keys.size() + j] == static_cast<Real>(queries[i] - keys[j]) ? 0 : 1;
      }
    }
    CHECK(wrong == 0);
  }
}

}  // namespace distances_test
