// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/error.hpp>

#include <algorithm>
#include <span>
#include <vector>

POSENC_STABLE_BEGIN

/// Distance that entry n of a relative table belongs to.
enum class RelativeOrder {
  Unspecified,    ///< a ConfigError
  KeyMinusQuery,  ///< key - query = first + n: Shaw, Music Transformer
  QueryMinusKey   ///< query - key = first + n: Transformer-XL, Conformer, DeBERTa, Inkling
};

/// Treatment of a distance beyond the ends of a relative table.
enum class BeyondTable {
  Unspecified,  ///< a ConfigError
  Nearest,      ///< clamps to the entry at that end: Shaw, DeBERTa
  Nothing,      ///< adds nothing: Inkling, Music Transformer
  Refused       ///< throws PositionError if such a key is visible: Transformer-XL, Conformer
};

/// Selects if attention's scale multiplies the products with the table.
enum class RelativeScale {
  Unspecified,  ///< a ConfigError
  Scaled,   ///< multiplies, as for q k: Shaw, Music Transformer, Transformer-XL, Conformer, DeBERTa
  Unscaled  ///< does not multiply: Inkling
};

POSENC_STABLE_END

POSENC_BEGIN

/// Map from a distance to a row of a relative table. Entry n is that of distance first + n, of
/// which the integer part counts. It is row n, or rows[n] if rows are given.
struct RelativeIndex {
  RelativeOrder order = RelativeOrder::Unspecified;  ///< required
  Index first = 0;                                   ///< distance of entry 0
  BeyondTable beyond = BeyondTable::Unspecified;     ///< required
  std::span<const Index> rows = {};                  ///< row of each entry, see deberta_rows()
};

/// Returns rows of DeBERTa's relative tables for the distances query - key = -M .. M, with M =
/// max_relative_positions: bucket + span, at most 2 span - 1. Distances beyond M have the rows of
/// -M and M.
/// Distances up to mid = position_buckets / 2 have a bucket each, larger ones have bucket mid +
/// ceil(ln(d / mid) / ln((M - 1) / mid) (mid - 1)). The span is position_buckets; if that is 0, the
/// span is M and each distance has a bucket.
///   Throws:   ConfigError
///   Accuracy: exact: M - 1 is the last distance of bucket 2 mid - 1, which a floating-point
///             logarithm may miss
///   Source:   Hugging Face, deberta_v2/modeling_deberta_v2.py @0038a3c, make_log_bucket_position
inline std::vector<Index> deberta_rows(Index position_buckets, Index max_relative_positions) {
  constexpr auto function = "deberta_rows";
  constexpr Index limit = Index{1} << 20;
  const Index max_distance = max_relative_positions, mid = position_buckets / 2;
  if (max_distance < 1 || max_distance > limit) {
    detail::fail<ConfigError>(function, "max_relative_positions must lie between 1 and ", limit,
                              " but is ", max_distance);
  }
  if (position_buckets < 0 || (position_buckets > 0 && (mid < 1 || max_distance - 1 <= mid))) {
    detail::fail<ConfigError>(
        function, "position_buckets must be 0, or at least 2 and less than twice ",
        "max_relative_positions - 1 (", max_distance - 1, "), but are ", position_buckets);
  }
  const Index span = position_buckets > 0 ? position_buckets : max_distance;
  const auto log_ratio = [mid](Index d) {
    return log(detail::DoubleDouble(static_cast<double>(d)) / static_cast<double>(mid));
  };
  const auto bucket = [&](Index distance) {
    if (position_buckets == 0 || distance <= mid) return distance;
    const detail::DoubleDouble goal = log_ratio(distance) * static_cast<double>(mid - 1);
    const detail::DoubleDouble step = log_ratio(max_distance - 1);
    // Equality up to the rounding of the logarithms suffices.
    const auto suffices = [&](Index steps) {
      return goal - step * static_cast<double>(steps) <= step * 0x1p-80;
    };
    auto steps = static_cast<Index>(goal.hi / step.hi);
    while (!suffices(steps)) ++steps;
    while (steps > 0 && suffices(steps - 1)) --steps;
    return mid + steps;
  };
  std::vector<Index> rows;
  for (Index d = -max_distance; d <= max_distance; ++d) {
    const Index signed_bucket = d < 0 ? -bucket(-d) : bucket(d);
    rows.push_back((std::min)((std::max)(signed_bucket + span, Index{0}), 2 * span - 1));
  }
  return rows;
}

/// Returns the index for rows from deberta_rows(). It is a view of `rows`.
inline RelativeIndex deberta_index(std::span<const Index> rows) noexcept {
  return {.order = RelativeOrder::QueryMinusKey,
          .first = -static_cast<Index>(rows.size() / 2),
          .beyond = BeyondTable::Nearest,
          .rows = rows};
}

POSENC_END
