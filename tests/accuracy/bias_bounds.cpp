// SPDX-License-Identifier: MIT
// Documented bounds of Alibi, Kerple, Fire and their logarithms.
#include "accuracy/bound.hpp"
#include "accuracy/promises.hpp"
#include <posenc/bias/alibi.hpp>
#include <posenc/bias/fire.hpp>
#include <posenc/bias/kerple.hpp>

#include <span>

namespace accuracy {
namespace {

template <class Real, class Bias>
double added(const Bias& bias, double query, double key) {
  Real score = 0;
  bias.add(0, std::span<const double>(&query, 1), std::span<const double>(&key, 1),
           posenc::MatrixView<Real>{&score, 1, 1, 1});
  return static_cast<double>(score);
}

/// Returns an error in ulp of Real, as a share of `allowed` ulp.
template <class Real>
double ulps(double got, const Mpfr& want, double allowed) {
  return distance(got, want) / (allowed * ulp<Real>(static_cast<double>(want)));
}

/// Returns the error of the gradient of a FIRE network's output weight, as a share of its bound.
template <class Real>
double fire_gradient_share(const Point& p) {
  constexpr std::size_t query_count = 4, key_count = 500;
  const posenc::FireParameters parameters{.c = p[0],
                                          .threshold = p[1],
                                          .hidden_weight = {p[4]},
                                          .hidden_bias = {p[5]},
                                          .output_weight = {1},
                                          .output_bias = {0}};
  const posenc::Fire fire(parameters);
  std::vector<double> queries(query_count), keys(key_count);
  for (std::size_t i = 0; i < query_count; ++i) queries[i] = p[2] + static_cast<double>(i);
  for (std::size_t j = 0; j < key_count; ++j) keys[j] = p[3] + static_cast<double>(j);
  std::vector<Real> grad(query_count * key_count);
  support::Random(static_cast<std::uint64_t>(p[6])).fill_normal(grad);
  auto gradient = fire.zero_gradient();
  fire.add_gradient<Real>(0, queries, keys, {grad.data(), query_count, key_count, key_count},
                          gradient);
  long double want = 0, magnitudes = 0;
  for (std::size_t i = 0; i < query_count; ++i) {
    const auto farthest = static_cast<long double>(std::max(queries[i], p[1]));
    const long double norm = std::log1p(static_cast<long double>(p[0]) * farthest) + 1e-6;
    for (std::size_t j = 0; j < key_count; ++j) {
      const auto d = static_cast<long double>(std::abs(queries[i] - keys[j]));
      const long double x = std::log1p(static_cast<long double>(p[0]) * d) / norm;
      const auto g = static_cast<long double>(grad[i * key_count + j]);
      want +=
          g * std::max(static_cast<long double>(p[4]) * x + static_cast<long double>(p[5]), 0.0L);
      magnitudes += std::abs(g) * (std::abs(static_cast<long double>(p[4])) * x +
                                   std::abs(static_cast<long double>(p[5])));
    }
  }
  const long double off = std::abs(static_cast<long double>(gradient.output_weight[0]) - want);
  return static_cast<double>(off / magnitudes) / promises::fire_gradient.value();
}

template <class Real>
void add_biases(std::vector<Bound>& all, const std::string& type) {
  using posenc::AlibiForm;
  using posenc::Kerple;
  using posenc::KerpleForm;
  all.push_back({"Alibi, " + type,
                 {magnitude(1e-6, 10), magnitude(1e-3, 1e3), {-1e6, 1e6}, {-1e6, 1e6}},
                 [](const Point& p) {
                   const posenc::Alibi alibi({p[0]}, AlibiForm::Symmetric, p[1]);
                   const Mpfr d = absolute(Mpfr(p[2]) - Mpfr(p[3]));
                   const Mpfr want = Mpfr(0) - Mpfr(p[0]) * Mpfr(p[1]) * d;
                   return ulps<Real>(added<Real>(alibi, p[2], p[3]), want, promises::alibi.value());
                 },
                 promises::alibi.value()});
  const std::vector<Range> of_kerple{
      magnitude(1e-6, 1e3), magnitude(1e-9, 1e6), {-1e6, 1e6}, {-1e6, 1e6}};
  const auto logarithmic = [](const Point& p) {
    const Kerple kerple({.form = KerpleForm::Logarithmic, .r1 = {p[0]}, .r2 = {p[1]}});
    const Mpfr d = absolute(Mpfr(p[2]) - Mpfr(p[3]));
    const Mpfr want = Mpfr(0) - Mpfr(p[0]) * log_1_plus(Mpfr(p[1]) * d);
    return ulps<Real>(added<Real>(kerple, p[2], p[3]), want, promises::kerple.value());
  };
  all.push_back({"Kerple, logarithmic, " + type, of_kerple, logarithmic, promises::kerple.value()});
  all.push_back({"Kerple, logarithmic, far, " + type,
                 {magnitude(1e-6, 1e3), magnitude(1e-300, 1e300), magnitude(1e-3, 1e300),
                  magnitude(1e-3, 1e300)},
                 logarithmic,
                 promises::kerple.value()});
  all.push_back({"Kerple, power, " + type,
                 {magnitude(1e-6, 1e3), magnitude(1e-3, 2), {-1e6, 1e6}, {-1e6, 1e6}},
                 [](const Point& p) {
                   if (p[2] == p[3]) return 0.0;
                   const Kerple kerple({.form = KerpleForm::Power, .r1 = {p[0]}, .r2 = {p[1]}});
                   const Mpfr log_d = log(absolute(Mpfr(p[2]) - Mpfr(p[3])));
                   const Mpfr want = Mpfr(0) - Mpfr(p[0]) * exp(Mpfr(p[1]) * log_d);
                   const double got = added<Real>(kerple, p[2], p[3]);
                   if (std::is_same_v<Real, float>)
                     return ulps<Real>(got, want, promises::kerple.value());
                   const double exponent = p[1] * std::abs(static_cast<double>(log_d));
                   return support::relative_error(got, want) / (0x1p-53 * (3 + 2 * exponent));
                 }});
  // Coordinates: c, threshold, query, key, two hidden units, their output weights, output bias.
  std::vector<Range> of_fire{magnitude(1e-3, 10), magnitude(1, 1e4), {0, 1e5}, {0, 1e5}};
  for (int i = 0; i < 7; ++i) of_fire.push_back({-2, 2});
  all.push_back(
      {"Fire, " + type, of_fire, [](const Point& p) {
         const std::vector<double> w{p[4], p[5]}, b{p[6], p[7]}, out{p[8], p[9]};
         const posenc::Fire fire({.c = p[0],
                                  .threshold = p[1],
                                  .hidden_weight = w,
                                  .hidden_bias = b,
                                  .output_weight = out,
                                  .output_bias = {p[10]}});
         const Mpfr d = absolute(Mpfr(p[2]) - Mpfr(p[3]));
         const Mpfr x = log_1_plus(Mpfr(p[0]) * d) /
                        (log_1_plus(Mpfr(p[0]) * Mpfr(std::max(p[2], p[1]))) + Mpfr(1e-6));
         // With x within 2 ulp, each term lies between two values.
         const double off = promises::fire_x.value() * ulp<Real>(static_cast<double>(x));
         Mpfr want = p[10], line = p[10], slope = 0.0;
         double allowed = 0, magnitudes = 0;
         for (std::size_t k = 0; k < 2; ++k) {
           const Mpfr hidden = Mpfr(w[k]) * x + Mpfr(b[k]);
           if (Mpfr(0) < hidden) want = want + Mpfr(out[k]) * hidden;
           if (b[k] > 0 || (b[k] == 0 && w[k] > 0)) {
             line = line + Mpfr(out[k]) * Mpfr(b[k]);
             slope = slope + Mpfr(out[k]) * Mpfr(w[k]);
           }
           if ((w[k] > 0) == (b[k] < 0) && w[k] != 0 && b[k] != 0) {
             const double above = static_cast<double>(x - absolute(Mpfr(b[k]) / Mpfr(w[k])));
             const double gain = std::abs(out[k] * w[k]);
             magnitudes += gain * std::max(above, 0.0);
             allowed += gain * std::min(std::max(above + off, 0.0), off);
           }
         }
         magnitudes +=
             std::abs(static_cast<double>(line)) + std::abs(static_cast<double>(slope * x));
         allowed += std::abs(static_cast<double>(slope)) * off +
                    (2 + promises::fire_added.value()) * ulp<Real>(magnitudes);
         return distance(added<Real>(fire, p[2], p[3]), want) / allowed;
       }});
  // Coordinates: c, threshold, first query, first key, a hidden unit, seed of the scores' gradient.
  all.push_back({"Fire, gradient of output_weight, " + type,
                 {magnitude(1e-3, 10),
                  magnitude(1, 1e4),
                  whole(0, 1e5),
                  whole(0, 1e5),
                  {-2, 2},
                  {-2, 2},
                  whole(0, 1e6)},
                 fire_gradient_share<Real>});
}

}  // namespace

std::vector<Bound> bias_bounds() {
  std::vector<Bound> all;
  add_biases<float>(all, "float");
  add_biases<double>(all, "double");
  all.push_back({"logarithm",
                 {magnitude(1e-300, 1e300)},
                 [](const Point& p) {
                   return ulps<double>(posenc::detail::logarithm(p[0]), log(Mpfr(p[0])),
                                       promises::logarithm.value());
                 },
                 promises::logarithm.value()});
  all.push_back({"logarithm, near 1",
                 {{0.5, 2}},
                 [](const Point& p) {
                   return ulps<double>(posenc::detail::logarithm(p[0]), log(Mpfr(p[0])),
                                       promises::logarithm.value());
                 },
                 promises::logarithm.value()});
  all.push_back({"log1p_branchless",
                 {magnitude(1e-30, 1e30)},
                 [](const Point& p) {
                   const double got = posenc::detail::log1p_branchless(p[0]);
                   return ulps<double>(got, log_1_plus(Mpfr(p[0])), promises::logarithm.value());
                 },
                 promises::logarithm.value()});
  return all;
}

}  // namespace accuracy
