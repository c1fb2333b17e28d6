// SPDX-License-Identifier: MIT
#pragma once

#include "reference/attention.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
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
#include <vector>

// One call of attention() with its inputs, and what the double reference says of it.
namespace attention_test {

using posenc::Index;
using Scalars = std::tuple<float, double, Eigen::half, Eigen::bfloat16>;

struct Shape {
  Index batch = 1, heads = 1, kv_heads = 1, queries = 1, keys = 1, dim = 8, value_dim = 8;
};

/// The rule of batch row b and head h.
using RuleOf = std::function<reference::AttentionRule(Index b, Index h)>;

template <class T>
class Case {
 public:
  Shape shape;
  support::Heads<T> q, k, v, out;

  /// q and k hold eighths up to 3/2, exact in every type and with exact dot products; v is normal.
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
  void run(const posenc::AttentionOptions<T>& options = {}, const Bias& bias = {}) {
    posenc::attention(q.view(), k.view(), v.view(), out.view(), options, bias);
  }

  double default_scale() const { return 1 / std::sqrt(static_cast<double>(shape.dim)); }
};

/// A Case without positions, masks or anything.
template <class T>
RuleOf plain_rule(const Case<T>& c) {
  return [scale = c.default_scale()](Index, Index) {
    reference::AttentionRule rule;
    rule.scale = scale;
    return rule;
  };
}

/// Head h of batch row b as a matrix [S, D].
template <class T>
reference::Matrix matrix_of(posenc::HeadsView<T> x, Index b, Index h) {
  reference::Matrix m(x.seq, x.dim);
  for (Index s = 0; s < x.seq; ++s) m.set_row(s, support::row_of(x, b, s, h));
  return m;
}

/// The reference's answer for batch row b and head h.
template <class T>
reference::AttentionResult answer(Case<T>& c, const RuleOf& rule_of, Index b, Index h) {
  const Index kv = h / (c.shape.heads / c.shape.kv_heads);
  return reference::attention(matrix_of(c.q.view(), b, h), matrix_of(c.k.view(), b, kv),
                              matrix_of(c.v.view(), b, kv), rule_of(b, h));
}

/// The greatest |score| at any stage: |scale q k| + |bias| over what is seen.
template <class T>
double largest_score(Case<T>& c, const reference::AttentionRule& rule, Index b, Index h) {
  const auto q = matrix_of(c.q.view(), b, h);
  const auto k = matrix_of(c.k.view(), b, h / (c.shape.heads / c.shape.kv_heads));
  double largest = 0;
  for (Index i = 0; i < q.rows; ++i) {
    for (Index j = 0; j < k.rows; ++j) {
      if (rule.allowed && !rule.allowed(i, j)) continue;
      double score = 0;
      for (Index d = 0; d < q.cols; ++d) score += q(i, d) * k(j, d);
      const double bias = rule.bias ? rule.bias(i, j) : 0;
      if (std::isinf(bias)) continue;
      largest = support::worse(largest, std::abs(rule.scale * score) + std::abs(bias));
    }
  }
  return largest;
}

/// Counts roundings of one score, each of a number no larger than the largest score.
struct Roundings {
  bool softcap = false, bias = false, additive = false;
  double dot = 0;  ///< 0 where dot products are exact, as they are in a Case

  /// The scale and its product; quotient, tanh (1 ulp is two) and product of the cap; slope times
  /// distance (1 ulp) and its sum; the additive mask's sum.
  double count() const { return 2 + dot + (softcap ? 4 : 0) + (bias ? 3 : 0) + (additive ? 1 : 0); }
};

/// Relative error of a probability, where scores are off by `roundings` of the largest one: that
/// error and the rounding of score - highest (up to twice the largest score) count for the
/// numerator and for the sum; exp is good to 1 ulp in both; then the sum's own and the division's.
/// The reference in double is as good as double arithmetic itself.
template <class T>
double probability_error(double largest_score, double roundings, Index keys) {
  using Real = posenc::Compute<T>;
  const double count = 2 * (roundings + 2) * largest_score + 2 * 2 + static_cast<double>(keys) + 1;
  return 1.01 * support::rounding<Real>(count) * (std::is_same_v<T, double> ? 2 : 1);
}

/// Error of an output: probabilities, at most two roundings a key in the weighted sum, the store.
template <class T>
double output_error(double largest_value, double of_probability, Index keys) {
  using Real = posenc::Compute<T>;
  return largest_value * of_probability +
         support::rounding<Real>(2 * static_cast<double>(keys) * largest_value) +
         support::rounding<T>(1.01 * largest_value);
}

/// The greatest error of c.out as a multiple of what it may be; infinite where a row that sees no
/// key is not zero.
template <class T>
double worst_error(Case<T>& c, const RuleOf& rule_of, const Roundings& roundings = {}) {
  double worst = 0;
  for (Index b = 0; b < c.shape.batch; ++b) {
    for (Index h = 0; h < c.shape.heads; ++h) {
      const auto want = answer(c, rule_of, b, h);
      const double relative = probability_error<T>(largest_score(c, rule_of(b, h), b, h),
                                                   roundings.count(), c.shape.keys);
      const auto values = matrix_of(c.v.view(), b, h / (c.shape.heads / c.shape.kv_heads)).values;
      const double allowed = output_error<T>(support::max_abs(values), relative, c.shape.keys);
      for (Index i = 0; i < c.shape.queries; ++i) {
        const bool blind = std::isinf(want.log_sum_exp[static_cast<std::size_t>(i)]);
        const auto got = support::row_of(c.out.view(), b, i, h);
        for (Index d = 0; d < c.shape.value_dim; ++d) {
          const double error =
              support::abs_difference(got[static_cast<std::size_t>(d)], want.output(i, d));
          if (error != 0) worst = support::worse(worst, error / (blind ? 0 : allowed));
        }
      }
    }
  }
  return worst;
}

/// A tensor [B, H, Sq, Sk] whose axes of extent 1 are broadcast.
template <class Element>
class Mask {
 public:
  using Tensor = Eigen::Tensor<Element, 4, Eigen::RowMajor>;
  Tensor values;

  Mask(Index batch, Index heads, Index queries, Index keys, Element value = {})
      : values(batch, heads, queries, keys) {
    values.setConstant(value);
  }

  Element at(Index b, Index h, Index i, Index j) const {
    const auto one = [this](std::size_t axis, Index n) {
      return values.dimension(axis) == 1 ? 0 : n;
    };
    return values(one(0, b), one(1, h), one(2, i), one(3, j));
  }
  auto view() { return posenc::bhqk(values); }

  template <class Make>
  void fill(const Make& make) {
    for (Index n = 0; n < values.size(); ++n) values.data()[n] = make();
  }
};

constexpr double infinity = std::numeric_limits<double>::infinity();

}  // namespace attention_test
