// SPDX-License-Identifier: MIT
#pragma once

#include "attention/attention_case.hpp"
#include "reference/attention.hpp"
#include "reference/rope.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/random.hpp"
#include "support/worse.hpp"
#include <posenc/nn/multi_head_attention.hpp>
#include <posenc/tensor/eigen.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <vector>

// Runs MultiHeadAttention and the reference module with the same parameters.
namespace module_test {

using posenc::Index;

template <class T>
using Embeddings = Eigen::Tensor<T, 3, Eigen::RowMajor>;

/// Returns a random multiple of `step`, of up to `most` steps. Such numbers are exact in float, and
/// so are projections of them.
template <class T>
T exact_number(support::Random& random, double step, Index most) {
  return static_cast<T>(step * static_cast<double>(random.integer(-most, most)));
}

template <class T>
Embeddings<T> random_embeddings(support::Random& random, Index batch, Index seq, Index dim) {
  Embeddings<T> x(batch, seq, dim);
  for (Index n = 0; n < x.size(); ++n) x.data()[n] = exact_number<T>(random, 0.25, 6);
  return x;
}

template <class Layer>
using ScalarOf = typename Layer::Scalar;

template <class Layer>
concept IsLinear = std::derived_from<Layer, posenc::LinearParameters<ScalarOf<Layer>>>;

template <IsLinear Layer>
void set_exact(Layer& layer, support::Random& random) {
  using T = ScalarOf<Layer>;
  for (Index n = 0; n < layer.weight.size(); ++n) {
    layer.weight.data()[n] = exact_number<T>(random, 0.125, 4);
  }
  for (Index n = 0; n < layer.bias.size(); ++n) {
    layer.bias(n) = exact_number<T>(random, 0.125, 4);
  }
}

template <class Module>
void set_exact(Module& module, std::uint64_t seed) {
  support::Random random(seed);
  for (auto* layer : {&module.query_projection, &module.key_projection, &module.value_projection,
                      &module.output_projection}) {
    set_exact(*layer, random);
  }
}

template <IsLinear Layer>
reference::Linear reference_of(const Layer& layer) {
  reference::Linear r{{layer.out_dim(), layer.in_dim()}, {}};
  for (Index o = 0; o < layer.out_dim(); ++o) {
    for (Index i = 0; i < layer.in_dim(); ++i) {
      r.weight(o, i) = static_cast<double>(layer.weight(o, i));
    }
  }
  for (Index o = 0; o < layer.bias.size(); ++o) {
    r.bias.push_back(static_cast<double>(layer.bias(o)));
  }
  return r;
}

template <class Module>
reference::MultiHead reference_of(const Module& module) {
  reference::MultiHead r;
  r.heads = module.config().heads;
  r.kv_heads = module.config().kv_heads;
  r.query = reference_of(module.query_projection);
  r.key = reference_of(module.key_projection);
  r.value = reference_of(module.value_projection);
  r.out = reference_of(module.output_projection);
  return r;
}

template <class T>
reference::Matrix matrix_of(const Embeddings<T>& x, Index b) {
  reference::Matrix m(x.dimension(1), x.dimension(2));
  for (Index s = 0; s < m.rows; ++s) {
    for (Index d = 0; d < m.cols; ++d) m(s, d) = static_cast<double>(x(b, s, d));
  }
  return m;
}

inline double largest_norm(const std::vector<reference::Matrix>& heads) {
  double largest = 0;
  for (const auto& head : heads) {
    for (Index s = 0; s < head.rows; ++s) {
      double sum = 0;
      for (const double x : head.row(s)) sum += x * x;
      largest = support::worse(largest, std::sqrt(sum));
    }
  }
  return largest;
}

/// Returns the error bound of the module's output for one batch row.
///
/// Projections are exact here. Scores are at most scale |q| |k| + the largest bias. Each rotation
/// of q or k has an error of 2 ulp per channel (6 roundings of the norm, both channels of a pair
/// together), and each of the head_dim products of q k may round twice. The rest is as for
/// attention(), plus the weighted sum of the output projection with a rounding per term.
template <class T>
double module_error(const reference::MultiHead& module, const reference::Matrix& query,
                    const reference::Matrix& key, const reference::Matrix& value, double scale,
                    double largest_bias) {
  const auto normalised = [](const reference::Matrix& rows, const auto& normalise) {
    return normalise ? normalise(rows) : rows;
  };
  const auto q =
      reference::split_heads(normalised(module.query(query), module.normalise_query), module.heads);
  const auto k =
      reference::split_heads(normalised(module.key(key), module.normalise_key), module.kv_heads);
  const double scores = std::abs(scale) * largest_norm(q) * largest_norm(k) + largest_bias;
  const double head_dim = static_cast<double>(q.front().cols);
  // The documented bound of the norm, for queries and for keys.
  const double of_norms =
      module.normalise_query ? 2 * (static_cast<double>(module.query.weight.rows) / 16 + 8) : 0;
  const double of_probability = attention_test::probability_error<T>(
      scores,
      attention_test::Roundings{.bias = true, .dot = 2 * head_dim + 2 * 6 + of_norms}.count(),
      key.rows);
  const double largest_value = support::max_abs(module.value(value).values);
  const double of_attention =
      attention_test::output_error<T>(largest_value, of_probability, key.rows);
  double largest = 0;
  for (Index o = 0; o < module.out.weight.rows; ++o) {
    double weights = 0;
    for (const double w : module.out.weight.row(o)) weights += std::abs(w);
    const double bias =
        module.out.bias.empty() ? 0 : std::abs(module.out.bias[static_cast<std::size_t>(o)]);
    const double terms = static_cast<double>(module.out.weight.cols) + 2;
    largest =
        support::worse(largest, weights * of_attention +
                                    support::rounding<T>(terms * (weights * largest_value + bias)));
  }
  return largest;
}

/// Returns a bound for the change of a projection's numbers under another order of sums.
template <class T>
reference::Matrix projection_difference(reference::Linear layer, reference::Matrix x) {
  const auto drop_signs = [](std::vector<double>& values) {
    for (double& value : values) value = std::abs(value);
  };
  drop_signs(layer.weight.values);
  drop_signs(layer.bias);
  drop_signs(x.values);
  auto sizes = layer(x);
  const double roundings = 2 * (static_cast<double>(layer.weight.cols) + 2);
  for (double& size : sizes.values) size *= support::rounding<T>(1.01 * roundings);
  return sizes;
}

/// Returns a bound for the difference of two outputs for the same tokens if projections are summed
/// in different orders: the documented bound of MultiHeadAttention, with attention's own rounding
/// on both sides. `scale` is the product of all factors of a score.
template <class T>
double decode_tolerance(const reference::MultiHead& module, const reference::Matrix& x,
                        double scale, double largest_bias) {
  const auto norm = [](const reference::Matrix& m, Index heads) {
    return largest_norm(reference::split_heads(m, heads));
  };
  const double q = norm(module.query(x), module.heads), k = norm(module.key(x), module.kv_heads);
  const double dq = norm(projection_difference<T>(module.query, x), module.heads);
  const double dk = norm(projection_difference<T>(module.key, x), module.kv_heads);
  const double v = support::max_abs(module.value(x).values);
  const double dv = support::max_abs(projection_difference<T>(module.value, x).values);
  const double of_head = 1.01 * 2 * scale * (dq * k + q * dk) * v + dv;

  reference::Matrix widest(1, module.out.weight.cols);
  widest.values.assign(widest.values.size(), v);
  const auto of_out = projection_difference<T>(module.out, widest);
  double largest = 0;
  for (Index o = 0; o < module.out.weight.rows; ++o) {
    double weights = 0;
    for (const double w : module.out.weight.row(o)) weights += std::abs(w);
    largest = support::worse(largest, weights * of_head + of_out(0, o));
  }
  return largest + 2 * module_error<T>(module, x, x, x, scale, largest_bias);
}

/// Returns the largest error of out against the reference, as a multiple of its bound.
template <class T>
double worst_error(reference::MultiHead module, const Embeddings<T>& x, const Embeddings<T>& keys,
                   const Embeddings<T>& values, const Embeddings<T>& out,
                   const reference::RuleOfHead& rule_of, double largest_bias = 0) {
  double worst = 0;
  for (Index b = 0; b < x.dimension(0); ++b) {
    const auto query = matrix_of(x, b), key = matrix_of(keys, b), value = matrix_of(values, b);
    const auto want = reference::multi_head_attention(module, query, key, value, rule_of).output;
    const double allowed =
        module_error<T>(module, query, key, value, rule_of(0).scale, largest_bias);
    worst = support::worse(
        worst, attention_test::share(
                   support::max_abs_difference(matrix_of(out, b).values, want.values), allowed));
  }
  return worst;
}

/// Returns a rotation of row t by the position first + t.
inline reference::RotateRow rotate_from(double first, std::vector<long double> inv_freq,
                                        reference::RopeRule rule) {
  return [=](const std::vector<double>& x, Index t) {
    return reference::rotate(x, first + static_cast<double>(t), inv_freq, rule);
  };
}

template <class T>
bool same_bits(const Embeddings<T>& a, const Embeddings<T>& b) {
  return a.dimensions() == b.dimensions() && support::same_bits(a.data(), b.data(), a.size());
}

}  // namespace module_test
