// SPDX-License-Identifier: MIT
#pragma once

#include "attend.hpp"
#include "reference/attention.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/tensor/adapt.hpp>
#include <posenc/tensor/eigen.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <tuple>
#include <type_traits>
#include <vector>

// One call of attention() with its inputs, and its result by the reference in double.
namespace attention_test {

using posenc::Index;
using Scalars = std::tuple<float, double, Eigen::half, Eigen::bfloat16>;

constexpr double infinity = std::numeric_limits<double>::infinity();

struct Shape {
  Index batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, dim = 8, value_dim = 8;
};

/// Function that returns the rule of batch row b and head h.
using RuleOf = std::function<reference::AttentionRule(Index b, Index h)>;

template <class T>
class Case {
 public:
  Shape shape;
  support::Heads<T> q, k, v, out;

  /// Fills q and k with multiples of 1/8 up to 3/2, which are exact in every type and have exact
  /// dot products. v is normal.
  Case(const Shape& s, std::uint64_t seed, support::Layout layout = {})
      : shape(s),
        q(s.batch, s.queries, s.heads, s.dim, layout),
        k(s.batch, s.keys, s.kv_heads, s.dim, layout),
        v(s.batch, s.keys, s.kv_heads, s.value_dim, layout),
        out(s.batch, s.queries, s.heads, s.value_dim, layout) {
    support::Random random(seed);
    for (auto* x : {&q, &k}) {
      x->for_each([&](T& value) {
        value = static_cast<T>(0.125 * static_cast<double>(random.integer(-12, 12)));
      });
    }
    v.for_each([&](T& value) { value = static_cast<T>(random.normal()); });
  }

  template <class Bias = posenc::NoBias>
  void run(const posenc::AttentionOptions<T>& options = {.causal = posenc::Causal::No},
           [[maybe_unused]] const Bias& bias = {}, const posenc::AttentionMemory<T>& memory = {}) {
    if constexpr (std::is_same_v<Bias, posenc::NoBias>) {
      attend(q.view(), k.view(), v.view(), out.view(), options, nullptr, memory);
    } else {
      posenc::attention(q.view(), k.view(), v.view(), out.view(), options, bias, memory);
    }
  }

  double default_scale() const { return 1 / std::sqrt(static_cast<double>(shape.dim)); }
};

/// Returns the rule of a Case without positions, masks or other options.
template <class T>
RuleOf plain_rule(const Case<T>& c) {
  return [scale = c.default_scale()](Index, Index) {
    reference::AttentionRule rule;
    rule.scale = scale;
    return rule;
  };
}

/// Function that returns true if key j is visible to query i in batch row b and head h.
using Sees = std::function<bool(Index b, Index h, Index i, Index j)>;

/// Returns the rule with only the keys that the predicate makes visible.
template <class T>
RuleOf seeing(const Case<T>& c, const Sees& sees) {
  return [plain = plain_rule(c), sees](Index b, Index h) {
    auto rule = plain(b, h);
    rule.allowed = [=](Index i, Index j) { return sees(b, h, i, j); };
    return rule;
  };
}

/// Returns head h of batch row b as a matrix [S, D].
template <class T>
reference::Matrix matrix_of(posenc::HeadsView<T> x, Index b, Index h) {
  reference::Matrix m(x.seq, x.dim);
  for (Index s = 0; s < x.seq; ++s) m.set_row(s, support::row_of(x, b, s, h));
  return m;
}

/// Returns the reference's result for batch row b and head h.
template <class T>
reference::AttentionResult answer(Case<T>& c, const RuleOf& rule_of, Index b, Index h) {
  const Index kv = h / (c.shape.heads / c.shape.kv_heads);
  return reference::attention(matrix_of(c.q.view(), b, h), matrix_of(c.k.view(), b, kv),
                              matrix_of(c.v.view(), b, kv), rule_of(b, h));
}

/// Returns the largest |score| at any stage: |scale q k| + |bias| + |mask| over visible keys, or
/// the sink.
template <class T>
double largest_score(Case<T>& c, const reference::AttentionRule& rule, Index b, Index h) {
  const auto q = matrix_of(c.q.view(), b, h);
  const auto k = matrix_of(c.k.view(), b, h / (c.shape.heads / c.shape.kv_heads));
  double largest = std::abs(rule.sink.value_or(0));
  for (Index i = 0; i < q.rows; ++i) {
    const double temperature = rule.temperature ? std::max(1.0, rule.temperature(i)) : 1;
    for (Index j = 0; j < k.rows; ++j) {
      if (rule.allowed && !rule.allowed(i, j)) continue;
      const double bias = rule.bias ? rule.bias(i, j) : 0,
                   added = rule.added ? rule.added(i, j) : 0;
      if (std::isinf(bias) || std::isinf(added)) continue;
      const double* query = q.values.data() + i * q.cols;
      const double* key = k.values.data() + j * k.cols;
      double score = 0;
      for (Index d = 0; d < q.cols; ++d) score += query[d] * key[d];
      largest = support::worse(
          largest, temperature * (std::abs(rule.scale * score) + std::abs(bias)) + std::abs(added));
    }
  }
  return largest;
}

/// Largest relative error of a probability by Probabilities::RoundedToBfloat16.
inline constexpr double rounding_of_bfloat16 = 0x1p-8;

/// Number of roundings of one score, each of a number no larger than the largest score.
struct Roundings {
  bool softcap = false, bias = false, additive = false, temperature = false;
  double dot = 0;          ///< 0 if dot products are exact, as in a Case
  double kept_times = 1;   ///< factor of probabilities that dropout keeps
  double probability = 0;  ///< relative error of a probability by its own rounding

  /// Returns the number of roundings: scale and its product; product with the reciprocal of the
  /// cap, tanh (2 ulp are four) and product with the cap; slope times distance (1 ulp) and its sum;
  /// sum with the additive mask; the temperature and its product.
  double count() const {
    return 2 + dot + (softcap ? 7 : 0) + (bias ? 3 : 0) + (additive ? 1 : 0) +
           (temperature ? 2 : 0);
  }
};

/// Returns the relative error of exp(score - highest), and of a sum of such terms, in roundings.
/// Scores are off by `roundings` of the largest one, score - highest (up to twice the largest
/// score) is rounded, and exp is accurate to 1.2 ulp. With more than one tile, each merge
/// multiplies by another such exp; the differences of the tiles' maxima, which ascend, add up to
/// twice the largest score as well.
inline double exponential_error(double largest_score, double roundings, Index keys) {
  const auto merges = static_cast<double>(keys <= 128 ? 0 : (keys + 127) / 128);
  return (roundings + (merges > 0 ? 4 : 2)) * largest_score + 2.4 + (2.4 + 1) * merges;
}

/// Returns the relative error of a probability: that of numerator and denominator, the roundings of
/// the sum of keys and sink, and the division. The error of the reference, in long double, is only
/// counted for double.
template <class T>
double probability_error(double largest_score, double roundings, Index keys) {
  using Real = posenc::Compute<T>;
  const double count =
      2 * exponential_error(largest_score, roundings, keys) + static_cast<double>(keys) + 2;
  return 1.01 * support::rounding<Real>(count) * (std::is_same_v<T, double> ? 2 : 1);
}

/// Returns the error of an output: probabilities, at most two roundings per key in the weighted
/// sum, and the store.
template <class T>
double output_error(double largest_value, double of_probability, Index keys) {
  using Real = posenc::Compute<T>;
  return largest_value * of_probability +
         support::rounding<Real>(2 * static_cast<double>(keys) * largest_value) +
         support::rounding<T>(1.01 * largest_value);
}

/// Returns the error of a log-sum-exp: relative errors of the sum become absolute ones. To these it
/// adds the error of the logarithm (1 ulp), and that of its sum with the row maximum, both no
/// larger than that maximum + ln(keys + 1).
template <class T>
double lse_error(double largest_score, double roundings, Index keys) {
  const double count = exponential_error(largest_score, roundings, keys) +
                       static_cast<double>(keys) + 1 +
                       4 * (largest_score + std::log(static_cast<double>(keys) + 1));
  return 1.01 * support::rounding<posenc::Compute<T>>(count) * (std::is_same_v<T, double> ? 2 : 1);
}

/// Returns error / allowed; it is 0 if the error is 0, even if the allowed error is 0.
inline double share(double error, double allowed) { return error == 0 ? 0 : error / allowed; }

/// Returns the largest error of c.out, and of log-sum-exps if any, as a multiple of the allowed
/// error. It is infinite if a row without visible keys is not zero.
template <class T>
double worst_error(Case<T>& c, const RuleOf& rule_of, const Roundings& roundings = {},
                   const posenc::LseView<posenc::Compute<T>>& lse = {}) {
  double worst = 0;
  for (Index b = 0; b < c.shape.batch; ++b) {
    for (Index h = 0; h < c.shape.heads; ++h) {
      const auto rule = rule_of(b, h);
      const auto want = answer(
          c, [&](Index, Index) { return rule; }, b, h);
      const double largest = largest_score(c, rule, b, h);
      const double relative =
          probability_error<T>(largest, roundings.count(), c.shape.keys) + roundings.probability;
      const auto values = matrix_of(c.v.view(), b, h / (c.shape.heads / c.shape.kv_heads)).values;
      const double allowed =
          output_error<T>(roundings.kept_times * support::max_abs(values), relative, c.shape.keys);
      for (Index i = 0; i < c.shape.queries; ++i) {
        const double want_lse = want.log_sum_exp[static_cast<std::size_t>(i)];
        const auto scores = want.scores.row(i);
        const bool blind = std::all_of(scores.begin(), scores.end(),
                                       [](double score) { return score == -infinity; });
        const auto got = support::row_of(c.out.view(), b, i, h);
        for (Index d = 0; d < c.shape.value_dim; ++d) {
          const double error =
              support::abs_difference(got[static_cast<std::size_t>(d)], want.output(i, d));
          worst = support::worse(worst, share(error, blind ? 0 : allowed));
        }
        if (lse.data == nullptr) continue;
        const double error = support::abs_difference(static_cast<double>(lse(b, h, i)), want_lse);
        worst = support::worse(
            worst,
            share(error, blind ? 0 : lse_error<T>(largest, roundings.count(), c.shape.keys)));
      }
    }
  }
  return worst;
}

/// Tensor [B, H, Sq, Sk] whose axes of extent 1 are broadcast.
template <class Element>
class Mask {
 public:
  using Tensor = Eigen::Tensor<Element, 4, Eigen::RowMajor>;
  Tensor values;

  Mask(Index batch, Index heads, Index queries, Index keys, Element value = {})
      // Extents of a mask that was omitted are negative.
      : values((std::max)(batch, Index{0}), (std::max)(heads, Index{0}),
               (std::max)(queries, Index{0}), (std::max)(keys, Index{0})) {
    std::fill_n(values.data(), values.size(), value);  // g++ 12 warns of setConstant() for bool
  }

  Element at(Index b, Index h, Index i, Index j) const { return values.data()[place(b, h, i, j)]; }
  /// Returns the index of an element in memory.
  Index place(Index b, Index h, Index i, Index j) const {
    const auto one = [this](std::size_t axis, Index n) {
      return values.dimension(axis) == 1 ? 0 : n;
    };
    return ((one(0, b) * values.dimension(1) + one(1, h)) * values.dimension(2) + one(2, i)) *
               values.dimension(3) +
           one(3, j);
  }
  auto view() { return posenc::bhqk(values); }

  template <class Make>
  void fill(const Make& make) {
    for (Index n = 0; n < values.size(); ++n) values.data()[n] = make();
  }
};

/// Log-sum-exps [B, H, Sq], initialised with NaN.
template <class Real>
class Lse {
 public:
  Eigen::Tensor<Real, 3, Eigen::RowMajor> values;

  Lse(Index batch, Index heads, Index queries) : values(batch, heads, queries) {
    values.setConstant(std::numeric_limits<Real>::quiet_NaN());
  }
  auto view() { return posenc::bhq(values); }
};

template <class Real>
posenc::LseView<Real> slice_queries(posenc::LseView<Real> x, Index first, Index count) {
  x.data += first * x.query_stride;
  x.queries = count;
  return x;
}

/// True if both have equal bits.
template <class Real>
bool same_bits(posenc::LseView<Real> a, posenc::LseView<Real> b) {
  if (a.extents() != b.extents()) return false;
  for (Index n = 0; n < a.batch; ++n) {
    for (Index h = 0; h < a.heads; ++h) {
      for (Index i = 0; i < a.queries; ++i) {
        if (!support::same_bits(&a(n, h, i), &b(n, h, i), 1)) return false;
      }
    }
  }
  return true;
}

}  // namespace attention_test
