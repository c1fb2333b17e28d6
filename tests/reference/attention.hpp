// SPDX-License-Identifier: MIT
#pragma once

#include "matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace reference {

/// Order of soft cap and bias on the scaled scores. ONNX and Gemma-2 apply the cap first.
enum class SoftcapOrder { BeforeBias, AfterBias };

/// Operand of a temperature, a factor per query: scaled products, biased scores, or capped scores.
enum class TemperatureOf { ScaledScores, BiasedScores, CappedScores };

/// Steps between q k^T and the values of one head; i is the query row, j the key row.
struct AttentionRule {
  double scale = 1.0;
  double softcap = 0.0;  ///< cap * tanh(score / cap); 0: none.
  SoftcapOrder softcap_order = SoftcapOrder::BeforeBias;
  std::function<double(std::int64_t i)> temperature;  ///< If empty: 1.
  TemperatureOf temperature_of = TemperatureOf::ScaledScores;
  std::function<bool(std::int64_t i, std::int64_t j)> allowed;    ///< If empty: all.
  std::function<double(std::int64_t i, std::int64_t j)> bias;     ///< If empty: zero; -inf: masked.
  std::function<double(std::int64_t i, std::int64_t j)> added;    ///< A mask, added last; likewise.
  std::optional<double> sink;                                     ///< exp(sink) joins the sum.
  std::function<double(std::int64_t i, std::int64_t j)> dropout;  ///< Weight factor; empty: 1.
};

struct AttentionResult {
  Matrix output;                    ///< [Sq, Dv].
  Matrix weights;                   ///< [Sq, Sk], after dropout.
  Matrix scores;                    ///< [Sq, Sk], input of the softmax, -inf if masked.
  std::vector<double> log_sum_exp;  ///< [Sq], with the sink.
};

/// Returns the score of query row i and key row j as the softmax gets it; -inf if the key is
/// masked, which is not read then.
long double attention_score(const Matrix& q, const Matrix& k, const AttentionRule& rule,
                            std::int64_t i, std::int64_t j);

/// Softmax attention of one head of one batch entry: q [Sq, D], k [Sk, D], v [Sk, Dv].
///
/// Masked keys and values are never read. If all keys of a row are masked, the row is zero, and its
/// LSE is -inf or the sink.
AttentionResult attention(const Matrix& q, const Matrix& k, const Matrix& v,
                          const AttentionRule& rule);

/// Alignment of queries with keys: query 0 with key 0, the last query with the last key, or query 0
/// with a given key.
enum class Alignment { TopLeft, BottomRight, FromStart };

inline std::int64_t aligned_key(Alignment alignment, std::int64_t queries, std::int64_t keys,
                                std::int64_t start) {
  if (alignment == Alignment::BottomRight) return keys - queries;
  return alignment == Alignment::FromStart ? start : 0;
}

/// Band of keys that a query sees, by the indices or positions of both.
struct Band {
  bool causal = false;      ///< No key after the query.
  std::int64_t left = -1;   ///< Most keys before the query; -1: any number.
  std::int64_t right = -1;  ///< Most keys after the query.

  bool shows(double query, double key) const {
    if (causal && key > query) return false;
    if (left >= 0 && key < query - static_cast<double>(left)) return false;
    return right < 0 || key <= query + static_cast<double>(right);
  }
};

/// Returns the sequence of token t, for sequences packed between the boundaries 0 = c[0] <= c[1]
/// ...
inline std::size_t sequence_of(const std::vector<std::int64_t>& boundaries, std::int64_t t) {
  std::size_t n = 0;
  while (t >= boundaries.at(n + 1)) ++n;
  return n;
}

/// Returns the rule of head h.
using RuleOfHead = std::function<AttentionRule(std::int64_t h)>;

/// Attention of all heads of one batch entry: q holds H matrices, k and v hold Hkv; head h uses h /
/// (H / Hkv).
std::vector<AttentionResult> grouped_attention(const std::vector<Matrix>& q,
                                               const std::vector<Matrix>& k,
                                               const std::vector<Matrix>& v,
                                               const RuleOfHead& rule_of_head);

/// Linear layer y = x W^T + b with W [out, in]; an empty bias is zero.
struct Linear {
  Matrix weight;
  std::vector<double> bias;

  Matrix operator()(const Matrix& x) const;
};

/// Returns the column blocks of [S, heads * head_dim], one matrix per head.
std::vector<Matrix> split_heads(const Matrix& x, std::int64_t heads);

/// Rotates one projected head vector of sequence row t; if empty: no rotation.
using RotateRow = std::function<std::vector<double>(const std::vector<double>& x, std::int64_t t)>;

/// Normalises a projection [S, heads * head_dim]; if empty: no norm.
using NormaliseRows = std::function<Matrix(const Matrix& x)>;

struct MultiHead {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  Linear query, key, value, out;
  RotateRow rotate_query, rotate_key;
  NormaliseRows normalise_query = {}, normalise_key = {};
};

struct MultiHeadResult {
  Matrix output;                       ///< [Sq, model].
  std::vector<AttentionResult> heads;  ///< One per query head.
};

/// Projections, rotation, grouped attention and output projection of one batch entry.
MultiHeadResult multi_head_attention(const MultiHead& module, const Matrix& query,
                                     const Matrix& key, const Matrix& value,
                                     const RuleOfHead& rule_of_head);

}  // namespace reference
