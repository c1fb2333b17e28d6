// SPDX-License-Identifier: MIT
// Tests exponentials of scores, and merging of softmax states, on every tier.
#include "simd/tiers.hpp"
#include "support/catch.hpp"
#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/core/detail/aligned_vector.hpp>
#include <posenc/kernels/softmax.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace softmax_test {

using posenc::Index;
using posenc::detail::ActiveLanes;
using posenc::detail::panel_lanes;
using posenc::detail::SoftmaxState;
using posenc::detail::stats_rows;
using posenc::detail::StripStats;
using posenc::detail::tile_keys;

namespace {

template <class T>
constexpr T neg_infinity = -std::numeric_limits<T>::infinity();

/// Softmax state of `rows` rows, with its memory.
template <class T>
struct Owned {
  posenc::detail::AlignedVector<T> memory;
  SoftmaxState<T> sums;

  Owned(Index rows, Index dim)
      : memory(static_cast<std::size_t>(2 * (rows + stats_rows) + rows * dim)),
        sums{memory.data(), memory.data() + rows + stats_rows,
             memory.data() + 2 * (rows + stats_rows)} {
    sums.clear(rows, dim);
  }
};

}  // namespace

TEMPLATE_LIST_TEST_CASE("softmax: a strip's exponentials and sums", "[attention][softmax]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  support::Random random(1);
  constexpr Index rows = 5;
  for (const ActiveLanes& lanes :
       {ActiveLanes{0, 128, 0xfu}, ActiveLanes{32, 90, 0x6u}, ActiveLanes{0, 16, 0x1u}}) {
    for (const bool marks : {false, true}) {
      posenc::detail::AlignedVector<T> scores(static_cast<std::size_t>(rows * tile_keys));
      for (T& score : scores) score = static_cast<T>(3 * random.normal());
      for (Index j = 0; j < rows * tile_keys; ++j) {
        const bool counts =
            lanes.has_panel(j % tile_keys / panel_lanes) && j % tile_keys < lanes.end;
        // One row has no visible key; in the others, some keys are masked.
        if (!counts || j / tile_keys == 2 || random.integer(1, 4) == 1) {
          scores[static_cast<std::size_t>(j)] = neg_infinity<T>;
        }
      }
      const auto before = scores;
      StripStats<T> sums;
      posenc::detail::exponentiate_strip<Tier>(lanes, rows, marks, scores.data(), sums.row_max,
                                               sums.sum);
      bool right = true;
      for (Index i = 0; i < rows; ++i) {
        T row_max = neg_infinity<T>;
        for (Index j = 0; j < tile_keys; ++j) {
          row_max = (std::max)(row_max, before[static_cast<std::size_t>(i * tile_keys + j)]);
        }
        const auto row = static_cast<std::size_t>(i);
        right &= sums.row_max[row] == row_max;
        double sum = 0;
        for (Index j = 0; j < tile_keys; ++j) {
          const auto at = static_cast<std::size_t>(i * tile_keys + j);
          if (!lanes.has_panel(j / panel_lanes)) {
            right &= !marks || (std::signbit(scores[at]) && scores[at] == 0);
            continue;
          }
          const double want = before[at] == neg_infinity<T>
                                  ? 0
                                  : std::exp(static_cast<double>(before[at] - row_max));
          sum += want;
          if (j >= lanes.end) continue;
          if (marks && before[at] == neg_infinity<T>) {
            right &= std::signbit(scores[at]) && scores[at] == 0;
          } else {
            right &= std::abs(static_cast<double>(scores[at]) - want) <=
                     4 * static_cast<double>(std::numeric_limits<T>::epsilon()) * want;
          }
        }
        right &= std::abs(static_cast<double>(sums.sum[row]) - sum) <=
                 150 * static_cast<double>(std::numeric_limits<T>::epsilon()) * sum;
      }
      INFO(Tier::name << ", lanes " << lanes.begin << " to " << lanes.end << ", marks " << marks);
      CHECK(right);
    }
  }
}

TEMPLATE_LIST_TEST_CASE("softmax: sums of two tiles become one", "[attention][softmax]",
                        tiers::Packs) {
  using T = typename TestType::Real;
  using Tier = typename TestType::Tier;
  constexpr Index rows = 21, dim = 16;
  Owned<T> a(rows, dim), b(rows, dim);
  support::Random random(2);
  const auto fill = [&](const SoftmaxState<T>& sums, Index blind) {
    for (Index r = 0; r < rows; ++r) {
      if (r % 4 == blind) continue;  // a row without keys so far
      sums.row_max[r] = static_cast<T>(4 * random.normal());
      sums.sum[r] = static_cast<T>(random.uniform(1, 9));
      for (Index d = 0; d < dim; ++d) sums.out[r * dim + d] = static_cast<T>(random.normal());
    }
  };
  fill(a.sums, 1);
  fill(b.sums, 2);
  Owned<T> before(rows, dim);
  std::copy(a.memory.begin(), a.memory.end(), before.memory.begin());
  posenc::detail::merge_softmax_states<Tier>(a.sums, b.sums, rows, dim);
  for (Index r = 0; r < rows; ++r) {
    const T of_a = before.sums.row_max[r], of_b = b.sums.row_max[r];
    const T top = (std::max)(of_a, of_b);
    CHECK(tiers::same(a.sums.row_max[r], top));
    if (of_b == neg_infinity<T>) {  // the other side keeps all bits
      CHECK(tiers::same(a.sums.sum[r], before.sums.sum[r]));
      CHECK(tiers::same(a.sums.out[r * dim], before.sums.out[r * dim]));
      continue;
    }
    const auto factor = [&](T row_max) {
      return row_max == neg_infinity<T> ? 0.0 : std::exp(static_cast<double>(row_max - top));
    };
    const auto joined = [&](T x, T y) {
      return static_cast<double>(x) * factor(of_a) + static_cast<double>(y) * factor(of_b);
    };
    const double epsilon = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());
    CHECK(std::abs(static_cast<double>(a.sums.sum[r]) -
                   joined(before.sums.sum[r], b.sums.sum[r])) <= 20 * epsilon);
    CHECK(std::abs(static_cast<double>(a.sums.out[r * dim + 3]) -
                   joined(before.sums.out[r * dim + 3], b.sums.out[r * dim + 3])) <= 10 * epsilon);
  }
}

}  // namespace softmax_test
