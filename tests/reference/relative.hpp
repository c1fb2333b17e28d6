// SPDX-License-Identifier: MIT
#pragma once

// Relative attention that depends on the query, one head at a time. x_part() returns the term that
// is added to q k^T, [Sq, Sk], for rows of q and k at any positions. Its comment begins with the
// side of the scale that the term is on. If the published code shifts instead, that is here too,
// for consecutive positions.

#include "attention.hpp"
#include "deberta_bucket.hpp"
#include "matrix.hpp"
#include "sinusoidal.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

namespace reference {

/// Positions of the rows of q, or of k.
using Positions = std::vector<std::int64_t>;

/// Returns start, start + step, ...
inline Positions positions_from(std::int64_t start, std::int64_t count, std::int64_t step = 1) {
  Positions positions;
  for (std::int64_t n = 0; n < count; ++n) positions.push_back(start + n * step);
  return positions;
}

/// Returns a b^T.
inline Matrix products(const Matrix& a, const Matrix& b) {
  if (a.cols != b.cols) throw std::invalid_argument("products: the widths differ");
  Matrix result(a.rows, b.rows);
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < b.rows; ++j) {
      long double sum = 0;
      for (std::int64_t c = 0; c < a.cols; ++c) {
        sum += static_cast<long double>(a(i, c)) * static_cast<long double>(b(j, c));
      }
      result(i, j) = static_cast<double>(sum);
    }
  }
  return result;
}

inline Matrix transposed(const Matrix& x) {
  Matrix result(x.cols, x.rows);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = 0; c < x.cols; ++c) result(c, r) = x(r, c);
  }
  return result;
}

/// Returns a + b; columns of b beyond those of a are dropped.
inline Matrix sum_of(const Matrix& a, const Matrix& b) {
  Matrix result = a;
  for (std::int64_t r = 0; r < a.rows; ++r) {
    for (std::int64_t c = 0; c < a.cols; ++c) result(r, c) += b(r, c);
  }
  return result;
}

/// Returns x with the vector added to each row.
inline Matrix shifted_rows(const Matrix& x, const std::vector<double>& vector) {
  Matrix result = x;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    for (std::int64_t c = 0; c < x.cols; ++c) {
      result(r, c) += vector.at(static_cast<std::size_t>(c));
    }
  }
  return result;
}

inline Matrix scaled(const Matrix& x, double factor) {
  Matrix result = x;
  for (double& value : result.values) value *= factor;
  return result;
}

/// Returns the scores with a part before the scale: (q k^T + part) scale.
inline Matrix scaled_scores(const Matrix& q, const Matrix& k, const Matrix& part, double scale) {
  return scaled(sum_of(products(q, k), part), scale);
}

/// Returns a part as AttentionRule::bias, which is added after the scale. The factor is the rule's
/// scale for a part before the scale, and 1 for a part after it.
inline std::function<double(std::int64_t i, std::int64_t j)> bias_of(Matrix part, double factor) {
  return [part = std::move(part), factor](std::int64_t i, std::int64_t j) {
    return part(i, j) * factor;
  };
}

/// Returns the table of head h if there is one per head, else the shared one.
inline const Matrix& table_of_head(const std::vector<Matrix>& tables, std::int64_t h) {
  return tables.size() == 1 ? tables.front() : tables.at(static_cast<std::size_t>(h));
}

/// One integer per query and key.
using IndexTable = std::vector<std::vector<std::int64_t>>;

/// Returns index(row, column) for rows and columns at the given positions.
template <class Index>
IndexTable index_table(const Positions& rows, const Positions& columns, const Index& index) {
  IndexTable table;
  for (const std::int64_t row : rows) {
    table.emplace_back();
    for (const std::int64_t column : columns) table.back().push_back(index(row, column));
  }
  return table;
}

/// Returns x(r, index[r][c]) as element (r, c).
inline Matrix gathered(const Matrix& x, const IndexTable& index) {
  const std::size_t columns = index.empty() ? 0 : index.front().size();
  Matrix result(static_cast<std::int64_t>(index.size()), static_cast<std::int64_t>(columns));
  for (std::int64_t r = 0; r < result.rows; ++r) {
    for (std::int64_t c = 0; c < result.cols; ++c) {
      result(r, c) = x(r, index[static_cast<std::size_t>(r)][static_cast<std::size_t>(c)]);
    }
  }
  return result;
}

/// Before the scale: Shaw's q_i . a_c (arXiv 1803.02155), c the distance key - query, clipped to
/// [-k, k]; the table's rows are those of c = -k .. k.
inline Matrix shaw_part(const Matrix& q, const Matrix& table, const Positions& query,
                        const Positions& key) {
  if (table.rows % 2 == 0) throw std::invalid_argument("shaw_part: the table has no middle row");
  const std::int64_t clip = (table.rows - 1) / 2;
  const auto row = [&](std::int64_t i, std::int64_t j) {
    return std::clamp(j - i, -clip, clip) + clip;
  };
  return gathered(products(q, table), index_table(query, key, row));
}

/// Relative shift of arXiv 1901.02860, appendix B: a column of zeros is prepended, then the memory
/// is read as rows that are one element shorter. Element (i, j) is x(i, j + rows - 1 - i) within
/// row i. Later elements come from the next row and are garbage.
inline Matrix relative_shift(const Matrix& x) {
  std::vector<double> padded;
  for (std::int64_t r = 0; r < x.rows; ++r) {
    padded.push_back(0.0);
    for (std::int64_t c = 0; c < x.cols; ++c) padded.push_back(x(r, c));
  }
  return Matrix(x.rows, x.cols, std::vector<double>(padded.begin() + x.rows, padded.end()));
}

/// Before the scale: Music Transformer's q_i . e (arXiv 1809.04281) for as many keys as queries, by
/// skewing. The table's rows are those of key - query = -(rows - 1) .. 0. The last ones are used,
/// and missing ones are zero. Garbage for j > i.
inline Matrix music_transformer_skewed(const Matrix& q, const Matrix& table) {
  Matrix used(q.rows, table.cols);
  const std::int64_t missing = q.rows - table.rows;
  for (std::int64_t r = std::max<std::int64_t>(missing, 0); r < q.rows; ++r) {
    used.set_row(r, table.row(r - missing));
  }
  return relative_shift(products(q, used));
}

/// Before the scale: Music Transformer's q_i . e at any positions; -inf, which masks, for keys
/// after the query.
inline Matrix music_transformer_part(const Matrix& q, const Matrix& table, const Positions& query,
                                     const Positions& key) {
  const Matrix logits = products(q, table);
  Matrix part(q.rows, static_cast<std::int64_t>(key.size()));
  for (std::int64_t i = 0; i < part.rows; ++i) {
    for (std::int64_t j = 0; j < part.cols; ++j) {
      const std::int64_t distance =
          key[static_cast<std::size_t>(j)] - query[static_cast<std::size_t>(i)];
      const std::int64_t row = table.rows - 1 + distance;
      if (distance > 0) {
        part(i, j) = -std::numeric_limits<double>::infinity();
      } else if (row >= 0) {
        part(i, j) = logits(i, row);
      }
    }
  }
  return part;
}

/// One head of Transformer-XL's attention (arXiv 1901.02860, 3.3), or of a Conformer's.
struct TransformerXlHead {
  SinusoidalLayout layout = SinusoidalLayout::Concatenated;  ///< Conformer: Interleaved.
  Linear project;                                            ///< W_R: [d, d_model], no bias.
  std::vector<double> u, v;                                  ///< [d] each.
};

/// Returns W_R R of each distance query - key, [distances, d]; positive for keys to the left.
inline Matrix relative_keys(const TransformerXlHead& head, const Positions& distances) {
  const std::int64_t width = head.project.weight.cols;
  Matrix table(static_cast<std::int64_t>(distances.size()), width);
  for (std::int64_t r = 0; r < table.rows; ++r) {
    for (std::int64_t c = 0; c < width; ++c) {
      const auto distance = static_cast<double>(distances[static_cast<std::size_t>(r)]);
      table(r, c) = sinusoidal_channel(head.layout, width, c, distance, 10000.0);
    }
  }
  return head.project(table);
}

/// Before the scale: u . k_j + (q_i + v) . W_R R(p_i - p_j).
inline Matrix transformer_xl_part(const TransformerXlHead& head, const Matrix& q, const Matrix& k,
                                  const Positions& query, const Positions& key) {
  const Matrix placed = shifted_rows(q, head.v);
  Matrix part(q.rows, k.rows);
  for (std::int64_t i = 0; i < q.rows; ++i) {
    Positions distances;
    for (const std::int64_t position : key) {
      distances.push_back(query[static_cast<std::size_t>(i)] - position);
    }
    const Matrix row = products(Matrix(1, q.cols, placed.row(i)), relative_keys(head, distances));
    part.set_row(i, row.row(0));
  }
  const Matrix content = products(Matrix(1, k.cols, head.u), k);
  for (std::int64_t i = 0; i < q.rows; ++i) {
    for (std::int64_t j = 0; j < k.rows; ++j) part(i, j) += content(0, j);
  }
  return part;
}

/// Returns the scores ((q + u) k^T + shift((q + v) (W_R R)^T)) scale, with R of the given distances
/// in order.
inline Matrix shifted_scores(const TransformerXlHead& head, const Matrix& q, const Matrix& k,
                             const Positions& distances, double scale) {
  const Matrix by_content = products(shifted_rows(q, head.u), k);
  const Matrix by_place = products(shifted_rows(q, head.v), relative_keys(head, distances));
  return scaled(sum_of(by_content, relative_shift(by_place)), scale);
}

/// Transformer-XL's scores as in its code: R of Sk - 1 .. 0, query i aligned with key Sk - Sq + i
/// (earlier keys are memory). Garbage for keys after the query.
inline Matrix transformer_xl_scores(const TransformerXlHead& head, const Matrix& q, const Matrix& k,
                                    double scale) {
  return shifted_scores(head, q, k, positions_from(k.rows - 1, k.rows, -1), scale);
}

/// A Conformer's scores as in its code: R of T - 1 .. -(T - 1), as many keys as queries.
inline Matrix conformer_scores(const TransformerXlHead& head, const Matrix& q, const Matrix& k,
                               double scale) {
  if (q.rows != k.rows) throw std::invalid_argument("conformer_scores: not as many keys");
  return shifted_scores(head, q, k, positions_from(k.rows - 1, 2 * k.rows - 1, -1), scale);
}

/// One head of DeBERTa-v2's disentangled attention, arXiv 2006.03654. A table without rows omits
/// its term.
struct DebertaHead {
  std::int64_t buckets = 0;       ///< position_buckets; <= 0: one per distance.
  std::int64_t max_relative = 0;  ///< max_relative_positions.
  Matrix key_table;               ///< Kr of c2p, [2 span, d].
  Matrix query_table;             ///< Qr of p2c, [2 span, d].

  std::int64_t span() const { return buckets > 0 ? buckets : max_relative; }

  /// Returns the scale of all terms: 1 / sqrt(d (1 + [c2p] + [p2c])).
  double scale(std::int64_t dim) const {
    const std::int64_t terms = 1 + (key_table.rows > 0 ? 1 : 0) + (query_table.rows > 0 ? 1 : 0);
    return 1 / std::sqrt(static_cast<double>(dim * terms));
  }
};

/// Before the scale: q_i . Kr + k_j . Qr, by the gathers of the code: p2c has a row per key, with a
/// reversed index, and is transposed.
inline Matrix deberta_part(const DebertaHead& head, const Matrix& q, const Matrix& k,
                           const Positions& query, const Positions& key) {
  const std::int64_t span = head.span();
  std::map<std::int64_t, std::int64_t> known;  // Big integers are slow.
  const auto bucket = [&](std::int64_t x) {
    const auto [at, is_new] = known.try_emplace(x, 0);
    if (is_new) at->second = deberta_bucket(x, head.buckets, head.max_relative);
    return at->second;
  };
  const auto row = [&](std::int64_t x) {
    return std::clamp<std::int64_t>(x + span, 0, 2 * span - 1);
  };
  Matrix part(q.rows, k.rows);
  if (head.key_table.rows > 0) {
    const auto index = [&](std::int64_t i, std::int64_t j) { return row(bucket(i - j)); };
    const Matrix c2p = products(q, head.key_table);
    part = sum_of(part, gathered(c2p, index_table(query, key, index)));
  }
  if (head.query_table.rows > 0) {
    const auto index = [&](std::int64_t j, std::int64_t i) { return row(-bucket(j - i)); };
    const Matrix p2c = products(k, head.query_table);
    part = sum_of(part, transposed(gathered(p2c, index_table(key, query, index))));
  }
  return part;
}

/// Inkling's relative logits r P, [Sq, extent]: r [Sq, d_rel] of one head, P [d_rel, extent].
inline Matrix inkling_logits(const Matrix& r, const Matrix& bank) {
  return products(r, transposed(bank));
}

/// After the scale: logit i - j where 0 <= i - j < extent, else 0. A temperature multiplies it.
inline Matrix inkling_part(const Matrix& r, const Matrix& bank, const Positions& query,
                           const Positions& key) {
  const auto column = [&](std::int64_t i, std::int64_t j) {
    return std::clamp<std::int64_t>(i - j, 0, bank.cols - 1);
  };
  Matrix part = gathered(inkling_logits(r, bank), index_table(query, key, column));
  for (std::int64_t i = 0; i < part.rows; ++i) {
    for (std::int64_t j = 0; j < part.cols; ++j) {
      const std::int64_t distance =
          query[static_cast<std::size_t>(i)] - key[static_cast<std::size_t>(j)];
      if (distance < 0 || distance >= bank.cols) part(i, j) = 0;
    }
  }
  return part;
}

}  // namespace reference
