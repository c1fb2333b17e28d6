// SPDX-License-Identifier: MIT
#include "attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace reference {

long double attention_score(const Matrix& q, const Matrix& k, const AttentionRule& rule,
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

AttentionResult attention(const Matrix& q, const Matrix& k, const Matrix& v,
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
    // NaN compares unequal, so a visible key with NaN is seen.
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

std::vector<AttentionResult> grouped_attention(const std::vector<Matrix>& q,
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

Matrix Linear::operator()(const Matrix& x) const {
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

std::vector<Matrix> split_heads(const Matrix& x, std::int64_t heads) {
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

MultiHeadResult multi_head_attention(const MultiHead& module, const Matrix& query,
                                     const Matrix& key, const Matrix& value,
                                     const RuleOfHead& rule_of_head) {
  const auto rotated = [](std::vector<Matrix> split, const RotateRow& rotate_row) {
    if (!rotate_row) return split;
    for (Matrix& head : split) {
      for (std::int64_t t = 0; t < head.rows; ++t) head.set_row(t, rotate_row(head.row(t), t));
    }
    return split;
  };
  const auto normalised = [](const Matrix& x, const NormaliseRows& normalise) {
    return normalise ? normalise(x) : x;
  };
  const std::vector<Matrix> q =
      rotated(split_heads(normalised(module.query(query), module.normalise_query), module.heads),
              module.rotate_query);
  const std::vector<Matrix> k =
      rotated(split_heads(normalised(module.key(key), module.normalise_key), module.kv_heads),
              module.rotate_key);
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
