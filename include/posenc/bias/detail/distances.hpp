// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/simd/detail/add_values.hpp>
#include <posenc/simd/pack.hpp>
#include <posenc/tensor/detail/consecutive_positions.hpp>
#include <posenc/tensor/view.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <functional>
#include <span>

// Tiles of biases that depend on query - key. At consecutive positions a tile of m x n scores has m
// + n - 1 distances instead of m n.
POSENC_BEGIN
namespace detail {

/// Padding unit of distance counts, the same for all tiers.
inline constexpr Index distance_padding = 16;

constexpr Index pad_distances(Index count) noexcept {
  return (count + distance_padding - 1) / distance_padding * distance_padding;
}

/// Returns how many positions from the first on are consecutive integers; at most `max_count`.
inline Index count_leading_consecutive(std::span<const double> positions,
                                       Index max_count) noexcept {
  max_count = (std::min)(max_count, static_cast<Index>(positions.size()));
  if (!is_exact_integer(positions[0])) return 1;
  Index count = 1;
  for (std::size_t i = 1; count < max_count && positions[i] - positions[i - 1] == 1; ++i) ++count;
  return count;
}

/// Limits of a block of scores, and of its number of distances.
inline constexpr Index max_block_queries = 96, max_block_keys = 1024;
inline constexpr Index max_block_distances = pad_distances(max_block_queries - 1 + max_block_keys);

static_assert(pad_distances(max_block_queries) + max_block_keys <= max_block_distances);

/// Table 0, 1, 2, .... Not a std::array, because g++ would evaluate its operator[] for each number
/// during compilation.
struct Iota {
  double of[std::size_t{max_block_distances}] = {};

  constexpr Iota() noexcept {
    for (Index u = 0; u < max_block_distances; ++u) of[u] = static_cast<double>(u);
  }
  const double* begin() const noexcept { return of; }
  const double* end() const noexcept { return of + max_block_distances; }
};
inline constexpr Iota iota_table;

/// True if `to`, as passed to evaluate(), points into the table of integers, so that its values
/// ascend by one.
inline bool points_into_iota(const double* to) noexcept {
  const std::less<> before;
  return !before(to, iota_table.begin()) && before(to, iota_table.end());
}

/// True if the first and the last position differ by their number - 1. Positions between them may
/// still be others.
inline bool ends_look_consecutive(std::span<const double> positions) noexcept {
  const auto between = static_cast<double>(positions.size() - 1);
  return is_exact_integer(positions.front()) && positions.back() - positions.front() == between;
}

/// Block of keys with consecutive positions, so that rows can share distances. Keys are tested when
/// that is first needed.
class ConsecutiveKeys {
 public:
  ConsecutiveKeys(bool may_share, std::span<const double> keys) noexcept
      : keys_(keys), may_share_(may_share && ends_look_consecutive(keys)) {}

  /// Returns how many queries, from the first one on, share their distances. If there are several,
  /// their values are written: row r of m begins at values[m - 1 - r].
  template <class Value, class Evaluate>
  Index evaluate_rows(std::span<const double> queries, const Evaluate& evaluate, Value* values) {
    return may_share_ ? evaluate_shared_rows(queries, evaluate, values) : 1;
  }

 private:
  /// True if all keys are at consecutive positions.
  bool is_consecutive() noexcept {
    may_share_ = may_share_ && (is_tested_ || are_consecutive(keys_));
    is_tested_ = true;
    return may_share_;
  }

  // Not inlined, so that evaluate() is instantiated once and does not compete for the caller's
  // registers.
  template <class Value, class Evaluate>
  POSENC_NOINLINE Index evaluate_shared_rows(std::span<const double> queries,
                                             const Evaluate& evaluate, Value* values) {
    const auto n = static_cast<Index>(keys_.size());
    Index m = (std::min)(max_block_queries, static_cast<Index>(queries.size()));
    queries = queries.first(static_cast<std::size_t>(m));
    // If the ends look consecutive, values are computed before the positions between are tested. A
    // load across two values that were just stored stalls until both are in the cache, and the test
    // fills that time.
    bool is_tested = !ends_look_consecutive(queries);
    if (is_tested) m = is_consecutive() ? count_leading_consecutive(queries, m) : 1;
    while (m > 1) {
      const double farthest = queries[static_cast<std::size_t>(m - 1)] - keys_.front();
      evaluate(farthest, iota_table.begin(), values, pad_distances(m - 1 + pad_distances(n)));
      if (is_tested || (is_consecutive() && are_consecutive(queries))) break;
      m = is_consecutive() ? count_leading_consecutive(queries, m) : 1;
      is_tested = true;
    }
    return m;
  }

  std::span<const double> keys_;
  bool may_share_, is_tested_ = false;
};

/// Evaluates one query and keys at arbitrary positions.
template <class Value, class Evaluate>
void evaluate_row(double query, std::span<const double> keys, const Evaluate& evaluate,
                  Value* values) {
  const auto n = static_cast<Index>(keys.size());
  const Index whole = n / distance_padding * distance_padding;
  if (whole > 0) evaluate(query, keys.data(), values, whole);
  if (whole < n) {
    double last[distance_padding] = {};
    std::copy(keys.data() + whole, keys.data() + n, last);
    evaluate(query, &last[0], values + whole, distance_padding);
  }
}

/// Covers the score tile with blocks of m x n scores. For each block it calls evaluate(from, to,
/// values, count), which writes one Value per distance from - to[u], and then use(i, m, j, n,
/// values): the score of query i + r and key j + k gets values[m - 1 - r + k]. `count` is a
/// multiple of distance_padding, at most max_block_distances; some of these distances belong to no
/// score. use() may read the first pad_distances(m) + pad_distances(n) values, of which those past
/// the last score may be uninitialised.
///   Bits: a value depends on its distance alone, if evaluate() guarantees that
template <class Value, class Evaluate, class Use>
void for_each_distance_block(std::span<const double> queries, std::span<const double> keys,
                             const Evaluate& evaluate, const Use& use) {
  alignas(64) Value values[static_cast<std::size_t>(max_block_distances)];
  const auto rows = static_cast<Index>(queries.size()), columns = static_cast<Index>(keys.size());
  if (rows == 0) return;
  for (Index j = 0; j < columns; j += max_block_keys) {
    const Index n = (std::min)(max_block_keys, columns - j);
    const auto block = keys.subspan(static_cast<std::size_t>(j), static_cast<std::size_t>(n));
    ConsecutiveKeys consecutive_keys(rows > 1, block);
    for (Index i = 0, m = 1; i < rows; i += m) {
      const auto first = static_cast<std::size_t>(i);
      m = consecutive_keys.evaluate_rows(queries.subspan(first), evaluate, &values[0]);
      if (m == 1) evaluate_row(queries[first], block, evaluate, &values[0]);
      use(i, m, j, n, static_cast<const Value*>(values));
    }
  }
}

/// Variant of for_each_distance_block() that calls use(i, j, n, values) for each row: the score
/// of query i and key j + k gets values[k].
template <class Value, class Evaluate, class Use>
void for_each_distance_row(std::span<const double> queries, std::span<const double> keys,
                           const Evaluate& evaluate, const Use& use) {
  for_each_distance_block<Value>(queries, keys, evaluate,
                                 [&](Index i, Index m, Index j, Index n, const Value* values) {
                                   for (Index r = 0; r < m; ++r)
                                     use(i + r, j, n, values + (m - 1 - r));
                                 });
}

/// Adds a Toeplitz block: row r of the m rows of scores += values[m - 1 - r + k] at column k.
template <class Tier = tier::Best, std::floating_point Real>
POSENC_NOINLINE void add_toeplitz(const Real* values, Index m, Index n, Real* scores,
                                  Index row_stride) noexcept {
  using P = Pack<Real, Tier>;
  for (Index from = m - 1; from >= 0; --from, scores += row_stride) {
    if constexpr (requires(P a) { combine_shift(Index{}, a, a); }) {
      // Loads that cross cache lines take twice as long, and loads that overlap two recent stores
      // stall. Packs are therefore loaded aligned and shifted in registers.
      const Index shift = from % P::width;
      const Real* const vectors = values + (from - shift);
      const auto add = [&](P value, Index k) { (P::load(scores + k) + value).store(scores + k); };
      P a = P::load(vectors);
      Index k = 0;
      for (; k + 2 * P::width <= n; k += 2 * P::width) {
        const P b = P::load(vectors + k + P::width), c = P::load(vectors + k + 2 * P::width);
        add(combine_shift(shift, a, b), k);
        add(combine_shift(shift, b, c), k + P::width);
        a = c;
      }
      for (; k < n; k += P::width) {
        const P b = P::load(vectors + k + P::width);
        const Index rest = (std::min)(n - k, P::width);
        (P::load_partial(scores + k, rest) + combine_shift(shift, a, b))
            .store_partial(scores + k, rest);
        a = b;
      }
    } else {
      add_values<Tier>(values + from, scores, n);
    }
  }
}

/// Adds the values that evaluate(), as in for_each_distance_block(), writes for the distance of
/// query i and key j to tile(i, j).
template <std::floating_point Real, class Evaluate>
void add_distance_bias(std::span<const double> queries, std::span<const double> keys,
                       const Evaluate& evaluate, const MatrixView<Real>& tile) {
  for_each_distance_block<Real>(queries, keys, evaluate,
                                [&](Index i, Index m, Index j, Index n, const Real* values) {
                                  Real* const scores = tile.row(i) + j;
                                  if (m == 1) {
                                    add_values(values, scores, n);
                                  } else {
                                    add_toeplitz(values, m, n, scores, tile.row_stride);
                                  }
                                });
}

/// Sets values[u] to the value that evaluate(), as in for_each_distance_block(), writes for the
/// distance farthest - u.
template <std::floating_point Real, class Evaluate>
void write_distance_bias(double farthest, std::span<Real> values, const Evaluate& evaluate) {
  const auto count = static_cast<Index>(values.size());
  for (Index first = 0; first < count; first += max_block_distances) {
    const double from = farthest - static_cast<double>(first);
    const Index n = (std::min)(max_block_distances, count - first);
    const Index whole = n / distance_padding * distance_padding;
    Real* const to = values.data() + first;
    if (whole > 0) evaluate(from, iota_table.begin(), to, whole);
    if (whole < n) {
      Real last[distance_padding];
      evaluate(from, iota_table.begin() + whole, &last[0], distance_padding);
      std::copy_n(last, n - whole, to + whole);
    }
  }
}

}  // namespace detail
POSENC_END
