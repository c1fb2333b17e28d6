// SPDX-License-Identifier: MIT
// Documented bounds of attention(), merge() and Linear.
#include "accuracy/bound.hpp"
#include "accuracy/promises.hpp"
#include <posenc/attention/attention.hpp>
#include <posenc/attention/merge.hpp>
#include <posenc/nn/linear.hpp>
#include <posenc/tensor/eigen.hpp>

namespace accuracy {
namespace {

using posenc::HeadsView;
using posenc::Index;

/// Returns the unit roundoff.
template <class Real>
constexpr double roundoff = static_cast<double>(std::numeric_limits<Real>::epsilon()) / 2;

template <class Real>
std::vector<Real> rounded(const Point& p, std::size_t first, std::size_t count) {
  std::vector<Real> values;
  for (std::size_t i = first; i < first + count; ++i) values.push_back(static_cast<Real>(p[i]));
  return values;
}

/// Inputs of one query, three keys of four channels, and values of one channel.
template <class Real>
struct Call {
  static constexpr Index dim = 4, keys = 3;
  std::vector<Real> q, k, v;
  double scale;
  Real out = 0, lse = 0;

  explicit Call(const Point& p)
      : q(rounded<Real>(p, 1, dim)),
        k(rounded<Real>(p, 1 + dim, dim * keys)),
        v(rounded<Real>(p, 1 + dim + dim * keys, keys)),
        scale(static_cast<double>(static_cast<Real>(p[0]))) {
    posenc::attention(
        HeadsView<const Real>{.data = q.data(), .batch = 1, .seq = 1, .heads = 1, .dim = dim},
        HeadsView<const Real>{.data = k.data(), .batch = 1, .seq = keys, .heads = 1, .dim = dim},
        HeadsView<const Real>{.data = v.data(), .batch = 1, .seq = keys, .heads = 1, .dim = 1},
        HeadsView<Real>{.data = &out, .batch = 1, .seq = 1, .heads = 1, .dim = 1},
        {.scale = scale, .causal = posenc::Causal::No}, {},
        {.lse = {.data = &lse, .batch = 1, .heads = 1, .queries = 1}});
  }

  struct Truth {
    Mpfr out, lse;
    double largest_score = 0, score_error = 0, largest_value = 0;
  };

  Truth truth() const {
    Truth truth;
    Mpfr sum = 0.0;
    for (std::size_t j = 0; j < keys; ++j) {
      Mpfr score = 0.0;
      double magnitude = 0;
      for (std::size_t d = 0; d < dim; ++d) {
        const double a = static_cast<double>(q[d]), b = static_cast<double>(k[j * dim + d]);
        score = score + Mpfr(a) * Mpfr(b);
        magnitude += std::abs(a * b);
      }
      score = score * Mpfr(scale);
      const Mpfr weight = exp(score);
      const auto value = static_cast<double>(v[j]);
      sum = sum + weight;
      truth.out = truth.out + weight * Mpfr(value);
      truth.largest_score = std::max(truth.largest_score, std::abs(static_cast<double>(score)));
      truth.score_error = std::max(truth.score_error, dim * roundoff<Real> * scale * magnitude);
      truth.largest_value = std::max(truth.largest_value, std::abs(value));
    }
    truth.out = truth.out / sum;
    truth.lse = log(sum);
    return truth;
  }
};

template <class Real>
void add_attention(std::vector<Bound>& all, const std::string& type) {
  std::vector<Range> of_call{magnitude(1e-3, 1)};
  for (Index i = 0; i < 4 + 4 * 3 + 3; ++i) of_call.push_back({-4, 4});
  all.push_back({"attention, output, " + type, of_call, [](const Point& p) {
                   const Call<Real> call(p);
                   const auto truth = call.truth();
                   const double score = truth.score_error + ulp<Real>(truth.largest_score);
                   const double allowed = truth.largest_value * (2 * score + 8 * roundoff<Real>);
                   return distance(static_cast<double>(call.out), truth.out) / allowed;
                 }});
  all.push_back({"attention, LSE, " + type, of_call, [](const Point& p) {
                   const Call<Real> call(p);
                   const auto truth = call.truth();
                   const double lse = std::abs(static_cast<double>(truth.lse));
                   const double allowed = truth.score_error +
                                          2 * ulp<Real>(std::max(truth.largest_score, lse)) +
                                          4 * roundoff<Real>;
                   return distance(static_cast<double>(call.lse), truth.lse) / allowed;
                 }});
  all.push_back({"merge, " + type,
                 {{-20, 20}, {-30, 30}, {-4, 4}, {-4, 4}},
                 [](const Point& p) {
                   Real a = static_cast<Real>(p[2]), lse_a = static_cast<Real>(p[0]);
                   const Real b = static_cast<Real>(p[3]), lse_b = static_cast<Real>(p[0] + p[1]);
                   const Mpfr of_a = exp(Mpfr(static_cast<double>(lse_a))),
                              of_b = exp(Mpfr(static_cast<double>(lse_b)));
                   const Mpfr want =
                       (of_a * Mpfr(static_cast<double>(a)) + of_b * Mpfr(static_cast<double>(b))) /
                       (of_a + of_b);
                   const double larger =
                       std::max(std::abs(static_cast<double>(a)), std::abs(static_cast<double>(b)));
                   posenc::merge(posenc::HeadsView<Real>{&a, 1, 1, 1, 1, 1, 1, 1},
                                 posenc::LseView<Real>{&lse_a, 1, 1, 1, 1, 1},
                                 posenc::HeadsView<const Real>{&b, 1, 1, 1, 1, 1, 1, 1},
                                 posenc::LseView<const Real>{&lse_b, 1, 1, 1, 1, 1});
                   return distance(static_cast<double>(a), want) /
                          (promises::merge.value() * ulp<Real>(larger));
                 },
                 promises::merge.value()});
  // Coordinates: weights, x, bias.
  static constexpr Index in = 5;
  all.push_back(
      {"Linear, " + type, std::vector<Range>(in + in + 1, {-2, 2}), [](const Point& p) {
         posenc::Linear<Real> linear(in, 1, true);
         const auto w = rounded<Real>(p, 0, in), x = rounded<Real>(p, in, in);
         std::copy(w.begin(), w.end(), linear.weight.data());
         linear.bias(0) = static_cast<Real>(p[in + in]);
         Real y = 0;
         linear.apply(
             posenc::EmbeddingsView<const Real>{.data = x.data(), .batch = 1, .seq = 1, .dim = in},
             posenc::EmbeddingsView<Real>{.data = &y, .batch = 1, .seq = 1, .dim = 1});
         Mpfr want = static_cast<double>(linear.bias(0));
         double magnitude = 0;
         for (std::size_t i = 0; i < in; ++i) {
           const double product = static_cast<double>(w[i]) * static_cast<double>(x[i]);
           want = want + Mpfr(static_cast<double>(w[i])) * Mpfr(static_cast<double>(x[i]));
           magnitude += std::abs(product);
         }
         const double size = std::abs(static_cast<double>(want));
         const double allowed = roundoff<Real> * ((in + 1) * magnitude + size);
         return distance(static_cast<double>(y), want) / allowed;
       }});
}

}  // namespace

std::vector<Bound> attention_bounds() {
  std::vector<Bound> all;
  add_attention<float>(all, "float");
  add_attention<double>(all, "double");
  return all;
}

}  // namespace accuracy
