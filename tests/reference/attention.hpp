// SPDX-License-Identifier: MIT
#pragma once

#include "matrix.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

namespace reference {

/// Which comes first on the scaled scores. ONNX and Gemma-2: the cap.
enum class SoftcapOrder { BeforeBias, AfterBias };

/// What a factor per query multiplies: scaled products, those and the bias, what the cap gives.
enum class TemperatureOf { ScaledScores, BiasedScores, CappedScores };

/// What stands between q k^T and the values of one head; i is the query row, j the key row.
struct AttentionRule {
  double scale = 1.0;
  double softcap = 0.0;  ///< cap * tanh(score / cap); 0: none.
  SoftcapOrder softcap_order = SoftcapOrder::BeforeBias;
  std::function<double(std::int64_t i)> temperature;  ///< Empty: 1.
  TemperatureOf temperature_of = TemperatureOf::ScaledScores;
  std::function<bool(std::int64_t i, std::int64_t j)> allowed;    ///< Empty: all are.
  std::function<double(std::int64_t i, std::int64_t j)> bias;     ///< Empty: zero; -inf: masked.
  std::function<double(std::int64_t i, std::int64_t j)> added;    ///< A mask, added last; likewise.
  std::optional<double> sink;                                     ///< exp(sink) joins the sum.
  std::function<double(std::int64_t i, std::int64_t j)> dropout;  ///< Times the weight; empty: 1.
};

struct AttentionResult {
  Matrix output;                    ///< [Sq, Dv].
  Matrix weights;                   ///< [Sq, Sk], after dropout.
  Matrix scores;                    ///< [Sq, Sk], as the softmax sees them, -inf where masked.
  std::vector<double> log_sum_exp;  ///< [Sq], the sink included.
};

/// The score of query row i and key row j as the softmax sees it; -inf where the key is masked,
/// which is not read then.
inline long double attention_score(const Matrix& q, const Matrix& k, const AttentionRule& rule,
                                   std::int64_t i, std::int64_t j) {
  constexpr long double masked = -std::numeric_limits<long double>::infinity();
  if (rule.allowed && !rule.allowed(i, j)) return masked;
  const auto bias = static_cast<long double>(rule.bias ? rule.bias(i, j) : 0.0);
  const auto added = static_cast<long double>(rule.added ? rule.added(i, j) : 0.0);
  if (bias == masked || added == masked) return masked;
  const double* query = q.values.data() + i * q.cols;
  const double* key = k.values.data() + j * k.cols;
  long double score = 0;
  for (std::int64_t d = 0; d < q.cols; ++d) {
    score += static_cast<long double>(query[d]) * static_cast<long double>(key[d]);
  }
  score *= static_cast<long double>(rule.scale);
  const auto cap = static_cast<long double>(rule.softcap);
  const auto temper = [&](TemperatureOf stage) {
    if (rule.temperature && rule.temperature_of == stage) {
      score *= static_cast<long double>(rule.temperature(i));
    }
  };
  temper(TemperatureOf::ScaledScores);
  if (rule.softcap_order == SoftcapOrder::AfterBias) {
    score += bias;
    temper(TemperatureOf::BiasedScores);
  }
  if (cap != 0) score = cap * std::tanh(score / cap);
  temper(TemperatureOf::CappedScores);
  if (rule.softcap_order == SoftcapOrder::BeforeBias) {
    score += bias;
    temper(TemperatureOf::BiasedScores);
  }
  return score + added;
}

/// Softmax attention of one head of one batch entry: q [Sq, D], k [Sk, D], v [Sk, Dv].
///
/// Masked keys and values are never read. A row with every key masked gives zeros, LSE = -inf, or
/// the sink where there is one.
inline AttentionResult attention(const Matrix& q, const Matrix& k, const Matrix& v,
                                 const AttentionRule& rule) {
  if (q.cols != k.cols || k.rows != v.rows) {
    throw std::invalid_argument("attention: the shapes of q, k and v do not agree");
  }
  constexpr long double masked = -std::numeric_limits<long double>::infinity();
  AttentionResult result{
      Matrix(q.rows, v.cols), Matrix(q.rows, k.rows), Matrix(q.rows, k.rows), {}};
  std::vector<long double> scores(static_cast<std::size_t>(k.rows));
  std::vector<long double> mixed(static_cast<std::size_t>(v.cols));

  for (std::int64_t i = 0; i < q.rows; ++i) {
    long double largest = rule.sink ? static_cast<long double>(*rule.sink) : masked;
    for (std::int64_t j = 0; j < k.rows; ++j) {
      const long double score = attention_score(q, k, rule, i, j);
      scores[static_cast<std::size_t>(j)] = score;
      result.scores(i, j) = static_cast<double>(score);
      largest = std::fmax(largest, score);
    }
    // NaN compares unequal, so a visible NaN is a key that is seen.
    const auto seen = [&](std::int64_t j) { return scores[static_cast<std::size_t>(j)] != masked; };
    const auto part = [&](long double score) { return std::exp(score - largest); };

    long double sum = rule.sink ? part(static_cast<long double>(*rule.sink)) : 0.0L;
    for (std::int64_t j = 0; j < k.rows; ++j) {
      if (seen(j)) sum += part(scores[static_cast<std::size_t>(j)]);
    }
    result.log_sum_exp.push_back(static_cast<double>(sum == 0 ? masked : largest + std::log(sum)));

    std::fill(mixed.begin(), mixed.end(), 0.0L);
    for (std::int64_t j = 0; j < k.rows; ++j) {
      if (!seen(j)) continue;
      long double weight = part(scores[static_cast<std::size_t>(j)]) / sum;
      if (rule.dropout) weight *= static_cast<long double>(rule.dropout(i, j));
      result.weights(i, j) = static_cast<double>(weight);
      const double* value = v.values.data() + j * v.cols;
      for (std::size_t d = 0; d < mixed.size(); ++d) {
        mixed[d] += weight * static_cast<long double>(value[d]);
      }
    }
    for (std::int64_t d = 0; d < v.cols; ++d) {
      result.output(i, d) = static_cast<double>(mixed[static_cast<std::size_t>(d)]);
    }
  }
  return result;
}

/// Where query 0 stands among the keys: at key 0; such that the last query is at the last key; at
/// a key that is given.
enum class Alignment { TopLeft, BottomRight, FromStart };

inline std::int64_t first_place(Alignment alignment, std::int64_t queries, std::int64_t keys,
                                std::int64_t start) {
  if (alignment == Alignment::BottomRight) return keys - queries;
  return alignment == Alignment::FromStart ? start : 0;
}

/// Which keys a query sees by where both stand, be that places or positions.
struct Band {
  bool causal = false;      ///< None after the query.
  std::int64_t left = -1;   ///< At most so many before it; -1: any number.
  std::int64_t right = -1;  ///< At most so many after it.

  bool shows(double query, double key) const {
    if (causal && key > query) return false;
    if (left >= 0 && key < query - static_cast<double>(left)) return false;
    return right < 0 || key <= query + static_cast<double>(right);
  }
};

/// The sequence that token t belongs to, of those packed between the boundaries 0 = c[0] <= c[1] ...
inline std::size_t sequence_of(const std::vector<std::int64_t>& boundaries, std::int64_t t) {
  std::size_t n = 0;
  while (t >= boundaries.at(n + 1)) ++n;
  return n;
}

/// Makes the rule of head h.
using RuleOfHead = std::function<AttentionRule(std::int64_t h)>;

/// All heads of one batch entry: q holds H matrices, k and v hold Hkv; head h uses h / (H / Hkv).
inline std::vector<AttentionResult> grouped_attention(const std::vector<Matrix>& q,
                                                      const std::vector<Matrix>& k,
                                                      const std::vector<Matrix>& v,
                                                      const RuleOfHead& rule_of_head) {
  if (k.empty() || k.size() != v.size() || q.size() % k.size() != 0) {
    throw std::invalid_argument("grouped_attention: the number of heads is not a multiple");
  }
  const std::size_t group = q.size() / k.size();
  std::vector<AttentionResult> results;
  for (std::size_t h = 0; h < q.size(); ++h) {
    results.push_back(
        attention(q[h], k[h / group], v[h / group], rule_of_head(static_cast<std::int64_t>(h))));
  }
  return results;
}

/// y = x W^T + b with W [out, in]; an empty bias is none.
struct Linear {
  Matrix weight;
  std::vector<double> bias;

  Matrix operator()(const Matrix& x) const {
    if (x.cols != weight.cols) throw std::invalid_argument("Linear: x has another width");
    Matrix y(x.rows, weight.rows);
    for (std::int64_t t = 0; t < x.rows; ++t) {
      for (std::int64_t o = 0; o < weight.rows; ++o) {
        long double sum =
            bias.empty() ? 0.0L : static_cast<long double>(bias.at(static_cast<std::size_t>(o)));
        for (std::int64_t c = 0; c < x.cols; ++c) {
          sum += static_cast<long double>(x(t, c)) * static_cast<long double>(weight(o, c));
        }
        y(t, o) = static_cast<double>(sum);
      }
    }
    return y;
  }
};

/// Column block h of [S, heads * head_dim], as a matrix of its own.
inline std::vector<Matrix> split_heads(const Matrix& x, std::int64_t heads) {
  if (heads <= 0 || x.cols % heads != 0) {
    throw std::invalid_argument("split_heads: the width is not a multiple of the heads");
  }
  const std::int64_t head_dim = x.cols / heads;
  std::vector<Matrix> split;
  for (std::int64_t h = 0; h < heads; ++h) {
    Matrix head(x.rows, head_dim);
    for (std::int64_t t = 0; t < x.rows; ++t) {
      head.set_row(t, x.row_slice(t, h * head_dim, head_dim));
    }
    split.push_back(head);
  }
  return split;
}

/// Turns one projected head vector of sequence row t; empty: left as it is.
using RotateRow = std::function<std::vector<double>(const std::vector<double>& x, std::int64_t t)>;

struct MultiHead {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  Linear query, key, value, out;
  RotateRow rotate_query, rotate_key;
};

struct MultiHeadResult {
  Matrix output;                       ///< [Sq, model].
  std::vector<AttentionResult> heads;  ///< One per query head.
};

/// Projections, rotation, grouped attention and output projection of one batch entry.
inline MultiHeadResult multi_head_attention(const MultiHead& module, const Matrix& query,
                                            const Matrix& key, const Matrix& value,
                                            const RuleOfHead& rule_of_head) {
  const auto rotated = [](std::vector<Matrix> split, const RotateRow& rotate_row) {
    if (!rotate_row) return split;
    for (Matrix& head : split) {
      for (std::int64_t t = 0; t < head.rows; ++t) head.set_row(t, rotate_row(head.row(t), t));
    }
    return split;
  };
  const std::vector<Matrix> q =
      rotated(split_heads(module.query(query), module.heads), module.rotate_query);
  const std::vector<Matrix> k =
      rotated(split_heads(module.key(key), module.kv_heads), module.rotate_key);
  const std::vector<Matrix> v = split_heads(module.value(value), module.kv_heads);

  MultiHeadResult result;
  result.heads = grouped_attention(q, k, v, rule_of_head);

  const std::int64_t head_dim = v.front().cols;
  Matrix joined(query.rows, module.heads * head_dim);
  for (std::int64_t h = 0; h < module.heads; ++h) {
    for (std::int64_t t = 0; t < query.rows; ++t) {
      for (std::int64_t d = 0; d < head_dim; ++d) {
        joined(t, h * head_dim + d) = result.heads[static_cast<std::size_t>(h)].output(t, d);
      }
    }
  }
  result.output = module.out(joined);
  return result;
}

}  // namespace reference
