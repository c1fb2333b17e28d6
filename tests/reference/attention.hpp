// SPDX-License-Identifier: MIT
#pragma once

#include "matrix.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <stdexcept>
#include <vector>

namespace reference {

/// Which comes first on the scaled scores. ONNX and Gemma-2: the cap.
enum class SoftcapOrder { BeforeBias, AfterBias };

/// What stands between q k^T and the softmax of one head; i is the query row, j the key row.
struct AttentionRule {
  double scale = 1.0;
  double softcap = 0.0;  ///< cap * tanh(score / cap); 0: none.
  SoftcapOrder softcap_order = SoftcapOrder::BeforeBias;
  std::function<bool(std::int64_t i, std::int64_t j)> allowed;  ///< Empty: all are.
  std::function<double(std::int64_t i, std::int64_t j)> bias;   ///< Empty: zero; -inf: masked.
};

struct AttentionResult {
  Matrix output;                    ///< [Sq, Dv].
  Matrix weights;                   ///< [Sq, Sk].
  Matrix scores;                    ///< [Sq, Sk], as the softmax sees them, -inf where masked.
  std::vector<double> log_sum_exp;  ///< [Sq].
};

/// Softmax attention of one head of one batch entry: q [Sq, D], k [Sk, D], v [Sk, Dv].
///
/// Masked keys and values are never read. A row with every key masked gives zeros, LSE = -inf.
inline AttentionResult attention(const Matrix& q, const Matrix& k, const Matrix& v,
                                 const AttentionRule& rule) {
  if (q.cols != k.cols || k.rows != v.rows) {
    throw std::invalid_argument("attention: the shapes of q, k and v do not agree");
  }
  const double infinity = std::numeric_limits<double>::infinity();
  AttentionResult result{
      Matrix(q.rows, v.cols), Matrix(q.rows, k.rows), Matrix(q.rows, k.rows), {}};

  for (std::int64_t i = 0; i < q.rows; ++i) {
    bool any_key = false;
    for (std::int64_t j = 0; j < k.rows; ++j) {
      if (rule.allowed && !rule.allowed(i, j)) {
        result.scores(i, j) = -infinity;
        continue;
      }
      const double bias = rule.bias ? rule.bias(i, j) : 0.0;
      if (bias == -infinity) {
        result.scores(i, j) = -infinity;
        continue;
      }
      long double dot = 0;
      for (std::int64_t d = 0; d < q.cols; ++d) {
        dot += static_cast<long double>(q(i, d)) * static_cast<long double>(k(j, d));
      }
      double score = static_cast<double>(dot * static_cast<long double>(rule.scale));
      if (rule.softcap_order == SoftcapOrder::AfterBias) score += bias;
      if (rule.softcap != 0) score = rule.softcap * std::tanh(score / rule.softcap);
      if (rule.softcap_order == SoftcapOrder::BeforeBias) score += bias;
      result.scores(i, j) = score;
      any_key = true;
    }

    if (!any_key) {
      result.log_sum_exp.push_back(-infinity);
      continue;
    }
    double largest = -infinity;
    for (std::int64_t j = 0; j < k.rows; ++j) largest = std::fmax(largest, result.scores(i, j));
    long double sum = 0;
    for (std::int64_t j = 0; j < k.rows; ++j) {
      sum += std::exp(static_cast<long double>(result.scores(i, j) - largest));
    }
    for (std::int64_t j = 0; j < k.rows; ++j) {
      result.weights(i, j) = static_cast<double>(
          std::exp(static_cast<long double>(result.scores(i, j) - largest)) / sum);
    }
    result.log_sum_exp.push_back(
        static_cast<double>(static_cast<long double>(largest) + std::log(sum)));

    for (std::int64_t d = 0; d < v.cols; ++d) {
      long double mixed = 0;
      for (std::int64_t j = 0; j < k.rows; ++j) {
        if (result.scores(i, j) == -infinity) continue;
        mixed += static_cast<long double>(result.weights(i, j)) * static_cast<long double>(v(j, d));
      }
      result.output(i, d) = static_cast<double>(mixed);
    }
  }
  return result;
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
