// SPDX-License-Identifier: MIT
#pragma once

#include "support/mpfr.hpp"
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>

#include <algorithm>
#include <vector>

/// The definitions of the scaling rules, evaluated with MPFR. Only where POSENC_HAVE_MPFR is
/// defined.
namespace truth {

using posenc::Index;
using support::Mpfr;
using InvFreq = std::vector<Mpfr>;

/// base^(-2i / r).
inline InvFreq power_law(const Mpfr& base, Index rotary_dim) {
  InvFreq w;
  for (Index i = 0; i < rotary_dim / 2; ++i) {
    w.push_back(
        pow(base, Mpfr(static_cast<double>(-2 * i)) / Mpfr(static_cast<double>(rotary_dim))));
  }
  return w;
}

inline InvFreq inv_freq(const posenc::Unscaled& rule) {
  return power_law(rule.base, rule.rotary_dim);
}

inline InvFreq inv_freq(const posenc::LinearScaling& rule) {
  InvFreq w = power_law(rule.base, rule.rotary_dim);
  for (Mpfr& value : w) value = value / Mpfr(rule.factor);
  return w;
}

/// The power law of base * factor^(r / (r - 2)).
inline InvFreq ntk(double base, Index rotary_dim, const Mpfr& factor) {
  const auto r = static_cast<double>(rotary_dim);
  return power_law(Mpfr(base) * pow(factor, Mpfr(r) / Mpfr(r - 2)), rotary_dim);
}

inline InvFreq inv_freq(const posenc::NtkScaling& rule) {
  return ntk(rule.base, rule.rotary_dim, rule.factor);
}

inline InvFreq inv_freq(const posenc::DynamicNtkScaling& rule, Index length) {
  const Index longest = std::max(length, rule.original_max_position);
  const Mpfr ratio =
      Mpfr(static_cast<double>(longest)) / Mpfr(static_cast<double>(rule.original_max_position));
  return ntk(rule.base, rule.rotary_dim, Mpfr(rule.factor) * ratio - (Mpfr(rule.factor) - 1));
}

/// r ln(L / (2 pi n)) / (2 ln base).
inline Mpfr yarn_index(const posenc::YarnScaling& rule, double rotations) {
  const Mpfr wavelength = Mpfr(static_cast<double>(rule.original_max_position)) /
                          (Mpfr(2) * Mpfr::pi() * Mpfr(rotations));
  return Mpfr(static_cast<double>(rule.rotary_dim)) * log(wavelength) /
         (Mpfr(2) * log(Mpfr(rule.base)));
}

inline InvFreq inv_freq(const posenc::YarnScaling& rule) {
  Mpfr low = yarn_index(rule, rule.beta_fast), high = yarn_index(rule, rule.beta_slow);
  if (rule.truncate) {
    low = floor(low);
    high = Mpfr(0) - floor(Mpfr(0) - high);
  }
  low = std::max(low, Mpfr(0));
  high = std::min(high, Mpfr(static_cast<double>(rule.rotary_dim - 1)));
  high = std::max(high, low + Mpfr(1) / Mpfr(1000));

  InvFreq w = power_law(rule.base, rule.rotary_dim);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const Mpfr ramp = (Mpfr(static_cast<double>(i)) - low) / (high - low);
    const Mpfr rho = std::max(std::min(ramp, Mpfr(1)), Mpfr(0));
    w[i] = w[i] * ((Mpfr(1) - rho) + rho / Mpfr(rule.factor));
  }
  return w;
}

}  // namespace truth
