// SPDX-License-Identifier: MIT
#pragma once

#include "matrix.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
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
long double attention_score(const Matrix& q, const Matrix& k, const AttentionRule& rule,
                            std::int64_t i, std::int64_t j);

/// Softmax attention of one head of one batch entry: q [Sq, D], k [Sk, D], v [Sk, Dv].
///
/// Masked keys and values are never read. A row with every key masked gives zeros, LSE = -inf, or
/// the sink where there is one.
AttentionResult attention(const Matrix& q, const Matrix& k, const Matrix& v,
                          const AttentionRule& rule);

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
std::vector<AttentionResult> grouped_attention(const std::vector<Matrix>& q,
                                               const std::vector<Matrix>& k,
                                               const std::vector<Matrix>& v,
                                               const RuleOfHead& rule_of_head);

/// y = x W^T + b with W [out, in]; an empty bias is none.
struct Linear {
  Matrix weight;
  std::vector<double> bias;

  Matrix operator()(const Matrix& x) const;
};

/// Column block h of [S, heads * head_dim], as a matrix of its own.
std::vector<Matrix> split_heads(const Matrix& x, std::int64_t heads);

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
MultiHeadResult multi_head_attention(const MultiHead& module, const Matrix& query,
                                     const Matrix& key, const Matrix& value,
                                     const RuleOfHead& rule_of_head);

}  // namespace reference
