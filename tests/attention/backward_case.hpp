// SPDX-License-Identifier: MIT
#pragma once

// EIGEN_USE_THREADS must be defined before any header of Eigen is included.
#include "attend_backward.hpp"
#include "attention_case.hpp"
#include "random_call.hpp"
#include "reference/attention_backward.hpp"
#include "support/devices.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

// One call of attention_backward() with its inputs, and its result by the reference in double.
namespace attention_test {

/// Gradient memory, initialised with NaN where attention_backward() overwrites and with 0 where it
/// adds.
template <class T>
class Gradients {
 public:
  using Real = posenc::Compute<T>;

  support::Heads<T> q, k, v;
  Mask<Real> additive;
  std::vector<Real> sinks;

  Gradients(const Shape& s, const posenc::AttentionOptions<T>& options, support::Layout layout = {})
      : q(s.batch, s.queries, s.heads, s.dim, layout),
        k(s.batch, s.keys, s.kv_heads, s.dim, layout),
        v(s.batch, s.keys, s.kv_heads, s.value_dim, layout),
        additive(options.additive.batch, options.additive.heads, options.additive.queries,
                 options.additive.keys),
        sinks(options.sinks.size()) {}

  posenc::AttentionGradients<T> view() {
    posenc::AttentionGradients<T> views{q.view(), k.view(), v.view()};
    if (additive.values.size() > 0) views.additive = additive.view();
    views.sinks = sinks;
    return views;
  }
};

/// Call of attention() with options of the test, and the gradient of its output.
template <class T>
class FixedCall {
 public:
  Case<T> c;
  support::Heads<T> grad_out;
  Lse<posenc::Compute<T>> lse;
  posenc::AttentionOptions<T> options;

  FixedCall(const Shape& s, std::uint64_t seed)
      : c(s, seed),
        grad_out(s.batch, s.queries, s.heads, s.value_dim),
        lse(s.batch, s.heads, s.queries) {
    support::Random random(seed + 1);
    grad_out.for_each([&](T& value) { value = static_cast<T>(random.normal()); });
  }
  FixedCall(const FixedCall&) = delete;  // its options may refer to members
  FixedCall& operator=(const FixedCall&) = delete;

  BackwardTensors<T> tensors(const posenc::AttentionGradients<T>& gradients) {
    return {c.q.view(), c.k.view(),      c.v.view(), c.out.view(),
            lse.view(), grad_out.view(), gradients};
  }
  Gradients<T> run() {
    Gradients<T> gradients(c.shape, options);
    attend_and_back(support::AnyDevice(support::Cutter{1000}), tensors(gradients.view()), options);
    return gradients;
  }
};

/// Random call of attention(), the gradient of its output, and the results of attention_backward().
template <class T>
class BackwardCall {
 public:
  using Real = posenc::Compute<T>;

  RandomCall<T> call;
  support::Heads<T> grad_out;
  Gradients<T> got;
  std::optional<LearnedBias> bias;
  std::vector<double> of_parameters;

  BackwardCall(std::uint64_t seed, const Shape& shape, Without without = {},
               support::Layout layout = {})
      : call(seed, shape, without_its_bias(without), layout),
        grad_out(shape.batch, shape.queries, shape.heads, shape.value_dim, layout),
        got(shape, call.options, layout) {
    grad_out.for_each([&](T& value) { value = static_cast<T>(call.random.normal()); });
    if (!without.bias && shape.heads > 0 && call.one_in(2)) {
      bias.emplace(static_cast<LearnedBias::Kind>(call.random.integer(0, LearnedBias::kinds - 1)),
                   shape.heads, call.random);
    }
  }

  template <class Device = Eigen::DefaultDevice>
  void run(const Device& device) {
    const BackwardTensors<T> tensors{call.c.q.view(),   call.c.k.view(), call.c.v.view(),
                                     call.c.out.view(), call.lse.view(), grad_out.view(),
                                     got.view()};
    if (!bias) {
      attend_and_back(device, tensors, call.options);
      return;
    }
    const auto made = bias->make();
    auto gradient = made.zero_gradient();
    attend_and_back(device, tensors, call.options, {&made, &gradient});
    of_parameters = gradient.numbers();
  }
  void run() { run(support::AnyDevice(support::Cutter{1000})); }

  reference::AttentionRule rule(Index b, Index h) const {
    auto rule = call.rule(b, h);
    if (bias) {
      rule.bias = [this, b, h](Index i, Index j) {
        return bias->value(bias->parameters(), h, call.query_at(b, i), call.key_at(b, j));
      };
    }
    return rule;
  }

 private:
  static Without without_its_bias(Without without) {
    without.bias = true;
    without.rounding = true;  // the reference's probabilities are not rounded
    return without;
  }
};

/// Sums of gradients over heads that share keys, over axes that masks broadcast, and over batch
/// rows, with the allowed error of each.
struct Sums {
  std::vector<double> values, allowed;

  explicit Sums(std::size_t count) : values(count), allowed(count) {}
  void add(std::size_t n, double value, double error) {
    values[n] += value;
    allowed[n] += error;
  }
  /// Replaces each non-zero bound by `error`; entries without terms stay 0.
  void allow(double error) {
    for (double& all : allowed) all += all > 0 ? error : 0;
  }
};

/// Largest error of all gradients as a multiple of the allowed one, and the name of that gradient.
class Worst {
 public:
  double share = 0;
  std::string where = "none";

  template <class Got>
  void compare(const char* name, const Sums& want, const Got& got) {
    for (std::size_t n = 0; n < want.values.size(); ++n) {
      const double error = support::abs_difference(static_cast<double>(got(n)), want.values[n]);
      const double ratio = error == 0 ? 0 : error / want.allowed[n];
      if (!(ratio <= share)) {
        share = ratio;
        std::ostringstream text;
        text << name << ' ' << n << ": " << static_cast<double>(got(n)) << " is not "
             << want.values[n] << " within " << want.allowed[n];
        where = text.str();
      }
    }
  }
};

/// Returns the allowed relative error of a gradient, as a fraction of the sum of its terms'
/// magnitudes: the probabilities, exp(score - lse), twice; the rounding of `out`, which replaces a
/// sum over probabilities; the sums of products.
template <class T>
double share_of_terms(const Shape& s, double largest_score, double roundings) {
  const auto count = [](Index n) { return static_cast<double>(n); };
  const double sums = count(s.dim + s.value_dim + s.keys + s.batch * s.queries * s.heads) + 16;
  return 2 * (probability_error<T>(largest_score, roundings, s.keys) +
              lse_error<T>(largest_score, roundings, s.keys)) +
         2 * support::rounding<posenc::Compute<T>>(sums) +
         (std::is_same_v<T, posenc::Compute<T>> ? 0 : 4 * support::rounding<T>(1));
}

/// Returns the allowed absolute error of a gradient: exponentials that exp_nonpositive() flushes to
/// 0, and denormal outputs of Eigen::half, off by 2^-25.
template <class T>
double least_error() {
  if (std::is_same_v<T, Eigen::half>) return 0x1p-20;
  return std::is_same_v<T, double> ? 0x1p-880 : 0x1p-80;
}

/// Returns the largest error of all results of a BackwardCall, compared with the reference.
template <class T>
Worst worst_gradient(BackwardCall<T>& x) {
  auto& c = x.call.c;
  const Shape& s = c.shape;
  const Index group = s.kv_heads == 0 ? 1 : s.heads / s.kv_heads;
  const auto size = [](Index n) { return static_cast<std::size_t>(n); };
  Sums q(size(s.batch * s.queries * s.heads * s.dim)),
      k(size(s.batch * s.keys * s.kv_heads * s.dim)),
      v(size(s.batch * s.keys * s.kv_heads * s.value_dim)),
      additive(size(x.got.additive.values.size())), sinks(x.got.sinks.size()),
      parameters(x.of_parameters.size());
  Roundings roundings = x.call.roundings;
  roundings.bias = x.bias.has_value();
  for (Index b = 0; b < s.batch; ++b) {
    for (Index h = 0; h < s.heads; ++h) {
      const auto rule = x.rule(b, h);
      const Index kv = h / group;
      const auto [g, m] = reference::attention_backward(
          matrix_of(c.q.view(), b, h), matrix_of(c.k.view(), b, kv), matrix_of(c.v.view(), b, kv),
          matrix_of(x.grad_out.view(), b, h), rule);
      const double share =
          share_of_terms<T>(s, largest_score(c, rule, b, h), roundings.count() + 8);
      const auto add = [&](Sums& sums, const reference::Matrix& values,
                           const reference::Matrix& magnitudes, Index seq, Index heads,
                           Index head) {
        for (Index t = 0; t < seq; ++t) {
          for (Index d = 0; d < values.cols; ++d) {
            sums.add(size(((b * seq + t) * heads + head) * values.cols + d), values(t, d),
                     share * magnitudes(t, d));
          }
        }
      };
      add(q, g.q, m.q, s.queries, s.heads, h);
      add(k, g.k, m.k, s.keys, s.kv_heads, kv);
      add(v, g.v, m.v, s.keys, s.kv_heads, kv);
      if (!sinks.values.empty()) sinks.add(size(h), g.sink, share * m.sink);
      for (Index i = 0; i < s.queries; ++i) {
        for (Index j = 0; j < s.keys; ++j) {
          if (m.added(i, j) == 0 || additive.values.empty()) continue;
          additive.add(size(x.got.additive.place(b, h, i, j)), g.added(i, j),
                       share * m.added(i, j));
        }
      }
      for (std::size_t n = 0; n < parameters.values.size(); ++n) {
        const LearnedBias::Slope slope(*x.bias, n);
        for (Index i = 0; i < s.queries; ++i) {
          for (Index j = 0; j < s.keys; ++j) {
            if (m.bias(i, j) == 0) continue;
            const double by_parameter = slope(h, x.call.query_at(b, i), x.call.key_at(b, j));
            // The derivative of the reference is a difference quotient.
            parameters.add(n, g.bias(i, j) * by_parameter,
                           ((share + 1e-8) * std::abs(by_parameter) + 1e-8) * m.bias(i, j));
          }
        }
      }
    }
  }
  for (Sums* sums : {&q, &k, &v, &additive, &sinks, &parameters}) sums->allow(least_error<T>());
  const auto round_to_element = [](Sums& sums) {
    for (std::size_t n = 0; n < sums.values.size(); ++n) {
      if (sums.allowed[n] > 0) sums.allowed[n] += support::rounding<T>(std::abs(sums.values[n]));
    }
  };
  Worst worst;
  const auto compare = [&](const char* name, Sums& want, support::Heads<T>& heads) {
    round_to_element(want);
    std::vector<double> got;
    heads.for_each([&](T& value) { got.push_back(support::to_double(value)); });
    worst.compare(name, want, [&](std::size_t n) { return got[n]; });
  };
  compare("q", q, x.got.q);
  compare("k", k, x.got.k);
  compare("v", v, x.got.v);
  worst.compare("additive", additive,
                [&](std::size_t n) { return x.got.additive.values.data()[n]; });
  worst.compare("sinks", sinks, [&](std::size_t n) { return x.got.sinks[n]; });
  worst.compare("parameter", parameters, [&](std::size_t n) { return x.of_parameters[n]; });
  return worst;
}

}  // namespace attention_test
