// SPDX-License-Identifier: MIT
#include "attention_backward.hpp"

#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

namespace reference {
namespace {

/// Derivatives of one visible score, and the sums that their rounding errors are relative to.
struct ScoreSlopes {
  long double product = 0, abs_product = 0;  ///< By q . k.
  long double bias = 0, abs_bias = 0;        ///< By the bias.
};

/// Returns the derivatives of attention_score(), step by step.
ScoreSlopes score_slopes(const Matrix& q, const Matrix& k, const AttentionRule& rule,
                         std::int64_t i, std::int64_t j) {
  const auto scale = static_cast<long double>(rule.scale),
             cap = static_cast<long double>(rule.softcap),
             bias = static_cast<long double>(rule.bias ? rule.bias(i, j) : 0.0);
  long double score = 0;
  for (std::int64_t d = 0; d < q.cols; ++d) {
    score += static_cast<long double>(q(i, d)) * static_cast<long double>(k(j, d));
  }
  score *= scale;
  ScoreSlopes by{scale, std::fabs(scale), 0, 0};
  const auto multiply_slopes = [&](long double factor, long double abs_factor) {
    by.product *= factor;
    by.abs_product *= abs_factor;
    by.bias *= factor;
    by.abs_bias *= abs_factor;
  };
  const auto temper = [&](TemperatureOf stage) {
    if (!rule.temperature || rule.temperature_of != stage) return;
    const auto factor = static_cast<long double>(rule.temperature(i));
    score *= factor;
    multiply_slopes(factor, std::fabs(factor));
  };
  temper(TemperatureOf::ScaledScores);
  if (rule.softcap_order == SoftcapOrder::AfterBias) {
    score += bias;
    by.bias = by.abs_bias = 1;
    temper(TemperatureOf::BiasedScores);
  }
  if (cap != 0) {
    // (cap tanh(s / cap))' = 1 - tanh^2 = 1 / cosh^2.
    const long double cosh = std::cosh(score / cap), tanh = std::tanh(score / cap);
    score = cap * tanh;
    multiply_slopes(1 / (cosh * cosh), 1 + tanh * tanh);
  }
  temper(TemperatureOf::CappedScores);
  if (rule.softcap_order == SoftcapOrder::BeforeBias) {
    by.bias = by.abs_bias = 1;
    temper(TemperatureOf::BiasedScores);
  }
  return by;
}

}  // namespace

AttentionBackward attention_backward(const Matrix& q, const Matrix& k, const Matrix& v,
                                     const Matrix& grad_output, const AttentionRule& rule) {
  if (q.cols != k.cols || k.rows != v.rows || grad_output.rows != q.rows ||
      grad_output.cols != v.cols) {
    throw std::invalid_argument("attention_backward: the shapes do not agree");
  }
  constexpr long double masked = -std::numeric_limits<long double>::infinity();
  const AttentionGradients zeros(q.rows, k.rows, q.cols, v.cols);
  AttentionBackward result{zeros, zeros};
  std::vector<long double> p(static_cast<std::size_t>(k.rows)), dp(p.size()), abs_dp(p.size());
  const auto add = [](double& sum, double& magnitude, long double term, long double abs_term) {
    sum += static_cast<double>(term);
    magnitude += static_cast<double>(abs_term);
  };
  auto& g = result.gradients;
  auto& m = result.magnitudes;

  for (std::int64_t i = 0; i < q.rows; ++i) {
    const long double none = rule.sink ? static_cast<long double>(*rule.sink) : masked;
    long double largest = none, sum = 0, mean = 0, abs_mean = 0;
    std::vector<bool> seen;
    for (std::int64_t j = 0; j < k.rows; ++j) {
      const long double score = attention_score(q, k, rule, i, j);
      p[static_cast<std::size_t>(j)] = score;
      seen.push_back(score != masked);
      largest = std::fmax(largest, score);
    }
    const long double of_sink = rule.sink ? std::exp(none - largest) : 0.0L;
    sum += of_sink;
    for (std::size_t j = 0; j < p.size(); ++j) {
      p[j] = seen[j] ? std::exp(p[j] - largest) : 0.0L;
      sum += p[j];
    }
    for (std::int64_t j = 0; j < k.rows; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (!seen[at]) continue;
      p[at] /= sum;
      const long double kept = rule.dropout ? static_cast<long double>(rule.dropout(i, j)) : 1.0L;
      dp[at] = abs_dp[at] = 0;
      for (std::int64_t d = 0; d < v.cols; ++d) {
        const auto of_output = static_cast<long double>(grad_output(i, d));
        const long double term = kept * of_output * static_cast<long double>(v(j, d));
        dp[at] += term;
        abs_dp[at] += std::fabs(term);
        const long double of_value = p[at] * kept * of_output;
        add(g.v(j, d), m.v(j, d), of_value, std::fabs(of_value));
      }
      mean += p[at] * dp[at];
      abs_mean += p[at] * abs_dp[at];
    }
    if (rule.sink) add(g.sink, m.sink, -of_sink / sum * mean, of_sink / sum * abs_mean);
    for (std::int64_t j = 0; j < k.rows; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (!seen[at]) continue;
      const long double ds = p[at] * (dp[at] - mean), abs_ds = p[at] * (abs_dp[at] + abs_mean);
      const ScoreSlopes by = score_slopes(q, k, rule, i, j);
      add(g.added(i, j), m.added(i, j), ds, abs_ds);
      add(g.bias(i, j), m.bias(i, j), ds * by.bias, abs_ds * by.abs_bias);
      for (std::int64_t d = 0; d < q.cols; ++d) {
        const auto query = static_cast<long double>(q(i, d)),
                   key = static_cast<long double>(k(j, d));
        const long double of_query = ds * by.product * key, of_key = ds * by.product * query;
        const long double size = abs_ds * by.abs_product;
        add(g.q(i, d), m.q(i, d), of_query, size * std::fabs(key));
        add(g.k(j, d), m.k(j, d), of_key, size * std::fabs(query));
      }
    }
  }
  return result;
}

}  // namespace reference
