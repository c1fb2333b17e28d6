// SPDX-License-Identifier: MIT
// Documented bounds of DoubleDouble, exp, tanh and the oscillator.
#include "accuracy/bound.hpp"
#include "accuracy/promises.hpp"
#include <posenc/core/detail/double_double.hpp>
#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/simd/exp.hpp>
#include <posenc/simd/tanh.hpp>

namespace accuracy {
namespace {

using posenc::detail::DoubleDouble;
using support::relative_error;

DoubleDouble full(double high, double share) {
  return posenc::detail::quick_two_sum(high, high * 0x1p-54 * share);
}

template <class Real, class Function>
Real of_lane(Real x, const Function& function) {
  using P = posenc::Pack<Real, posenc::tier::Best>;
  Real lanes[P::width];
  function(P::broadcast(x)).store(&lanes[0]);
  return lanes[0];
}

template <class Real>
void add_elementary(std::vector<Bound>& all, const std::string& type) {
  const double largest = std::is_same_v<Real, float> ? 87 : 690;
  const auto check = [&](const std::string& name, Range range, double allowed, const auto& ours,
                         const auto& truth) {
    all.push_back({name + ", " + type,
                   {range},
                   [=](const Point& p) {
                     const Real x = static_cast<Real>(p[0]);
                     const Mpfr want = truth(Mpfr(static_cast<double>(x)));
                     return distance(static_cast<double>(of_lane<Real>(x, ours)), want) /
                            (allowed * ulp<Real>(static_cast<double>(want)));
                   },
                   allowed});
  };
  const double nonpositive =
      (POSENC_HAS_FMA ? promises::exp_nonpositive : promises::exp_nonpositive_without_fma).value();
  const double hyperbolic = (POSENC_HAS_FMA ? promises::tanh : promises::tanh_without_fma).value();
  const double exponential =
      (std::is_same_v<Real, float> ? promises::exp : promises::exp_double).value();
  const auto power = [](const Mpfr& x) { return exp(x); };
  const auto tangent = [](const Mpfr& x) {
    const Mpfr square = exp(x + x);
    return (square - Mpfr(1)) / (square + Mpfr(1));
  };
  check(
      "exp", {-largest, largest}, exponential, [](auto x) { return exp(x); }, power);
  check(
      "exp, near 0", {-1, 1}, exponential, [](auto x) { return exp(x); }, power);
  check(
      "exp_nonpositive", {std::is_same_v<Real, float> ? -68.9 : -623.4, 0}, nonpositive,
      [](auto x) { return exp_nonpositive(x); }, power);
  check(
      "exp_nonpositive, near 0", {-2, 0}, nonpositive, [](auto x) { return exp_nonpositive(x); },
      power);
  check(
      "tanh", {0, 12}, hyperbolic, [](auto x) { return tanh(x); }, tangent);
  check(
      "tanh, small", magnitude(1e-6, 1), hyperbolic, [](auto x) { return tanh(x); }, tangent);

  const auto of_oscillator = [](const Point& p) {
    const double angle = std::abs(p[0] * p[1]);
    if (angle > 0x1p50) return 0.0;
    const DoubleDouble w = full(p[1], p[2]);
    const posenc::detail::Oscillator oscillator(std::span<const DoubleDouble>(&w, 1));
    Real c = 0, s = 0;
    oscillator.cos_sin_row(p[0], 0, 1, 1.0, &c, &s);
    const Mpfr exact = Mpfr(p[0]) * Mpfr(w);
    const Mpfr want_c = cos(exact), want_s = sin(exact);
    const double allowance = promises::of_angle(angle);
    const auto share = [&](Real got, const Mpfr& want) {
      const double half = std::is_same_v<Real, float>
                              ? promises::float_angle.value() * ulp<Real>(static_cast<double>(want))
                              : 0;
      return std::max(distance(static_cast<double>(got), want) - half, 0.0) / allowance;
    };
    return std::max(share(c, want_c), share(s, want_s));
  };
  all.push_back({"Oscillator, " + type,
                 {magnitude(1e-3, 1e12), magnitude(1e-9, 1e3), {-1, 1}},
                 of_oscillator});
  all.push_back({"Oscillator, extreme, " + type,
                 {magnitude(1e-290, 1e290), magnitude(1e-280, 1e308), {-1, 1}},
                 of_oscillator});
}

}  // namespace

std::vector<Bound> elementary_bounds() {
  std::vector<Bound> all;
  const std::vector<Range> two{{-64, 64}, {-1, 1}, {-1, 1}, {-1, 1}, {0.5, 1}, {0.5, 1}};
  const auto check = [&](const std::string& name, const auto& function) {
    all.push_back({name, two, [function](const Point& p) {
                     const DoubleDouble a = full(std::copysign(p[4], p[2]), p[1]);
                     const double size = std::exp2(p[0]);
                     const DoubleDouble b = full(std::copysign(p[5] * size, p[3]), p[2]);
                     return relative_error(function(a, b), function(Mpfr(a), Mpfr(b))) /
                            promises::double_double.value();
                   }});
  };
  check("DoubleDouble +", [](const auto& a, const auto& b) { return a + b; });
  check("DoubleDouble -", [](const auto& a, const auto& b) { return a - b; });
  check("DoubleDouble *", [](const auto& a, const auto& b) { return a * b; });
  check("DoubleDouble /", [](const auto& a, const auto& b) { return a / b; });
  all.push_back({"DoubleDouble exp", {{-44, 44}, {-1, 1}}, [](const Point& p) {
                   const DoubleDouble x = full(p[0], p[1]);
                   return relative_error(exp(x), exp(Mpfr(x))) /
                          promises::double_double_power.value();
                 }});
  all.push_back({"DoubleDouble log", {magnitude(0x1p-64, 0x1p64), {-1, 1}}, [](const Point& p) {
                   const DoubleDouble x = full(p[0], p[1]);
                   return relative_error(log(x), log(Mpfr(x))) /
                          promises::double_double_power.value();
                 }});
  all.push_back({"DoubleDouble log, near 1", {{0.5, 2}, {-1, 1}}, [](const Point& p) {
                   const DoubleDouble x = full(p[0], p[1]);
                   return relative_error(log(x), log(Mpfr(x))) /
                          promises::double_double_power.value();
                 }});
  all.push_back({"DoubleDouble pow", {magnitude(0x1p-64, 0x1p64), {-40, 40}}, [](const Point& p) {
                   const double y = p[0] == 1 ? 1 : p[1] / std::log(p[0]);
                   if (std::abs(y * std::log(p[0])) > 40) return 0.0;
                   return relative_error(pow(DoubleDouble(p[0]), y), pow(Mpfr(p[0]), y)) /
                          promises::double_double_power.value();
                 }});
  add_elementary<float>(all, "float");
  add_elementary<double>(all, "double");
  return all;
}

}  // namespace accuracy
