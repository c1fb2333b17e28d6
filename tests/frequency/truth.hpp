// SPDX-License-Identifier: MIT
#pragma once

#include "support/mpfr.hpp"
#include <posenc/frequency/rotary_rule.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

/// The definitions of the scaling rules, evaluated with MPFR. Available only if POSENC_HAVE_MPFR is
/// defined.
namespace truth {

using posenc::Index;
using support::Mpfr;
using InvFreq = std::vector<Mpfr>;

/// Returns base^(-2i / r).
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

/// Returns the power law of base * factor^(r / (r - 2)).
inline InvFreq ntk(double base, Index rotary_dim, const Mpfr& factor) {
  const auto r = static_cast<double>(rotary_dim);
  return power_law(Mpfr(base) * pow(factor, Mpfr(r) / Mpfr(r - 2)), rotary_dim);
}

inline InvFreq inv_freq(const posenc::NtkScaling& rule) {
  return ntk(rule.base, rule.rotary_dim, rule.factor);
}

inline InvFreq inv_freq(const posenc::DynamicNtkScaling& rule, Index length) {
  const Mpfr trained(static_cast<double>(rule.original_max_position));
  const Mpfr longest = std::max(Mpfr(static_cast<double>(length)), trained);
  // factor * longest / trained - (factor - 1), without the subtraction, which loses the 1.
  return ntk(rule.base, rule.rotary_dim, Mpfr(rule.factor) * (longest - trained) / trained + 1);
}

inline InvFreq inv_freq(const posenc::AlphaNtkScaling& rule) {
  return ntk(rule.base, rule.rotary_dim, rule.alpha);
}

inline InvFreq inv_freq(const posenc::VllmNtkScaling& rule) {
  InvFreq w = power_law(rule.base, rule.rotary_dim);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const Mpfr share =
        Mpfr(2.0 * static_cast<double>(i + 1)) / Mpfr(static_cast<double>(rule.rotary_dim));
    w[i] = w[i] / pow(Mpfr(rule.factor), share);
  }
  return w;
}

inline InvFreq inv_freq(const posenc::VllmMixedNtkScaling& rule) {
  InvFreq w = power_law(rule.base, rule.rotary_dim);
  for (std::size_t i = 0; i < w.size(); ++i) {
    const Mpfr share =
        Mpfr(static_cast<double>(i + 1)) / Mpfr(static_cast<double>(rule.rotary_dim / 2));
    w[i] = w[i] / exp(log(Mpfr(rule.factor)) * pow(share, rule.mixed_b));
  }
  return w;
}

inline Mpfr clamped(const Mpfr& x) { return std::max(std::min(x, Mpfr(1)), Mpfr(0)); }

/// Returns r ln(L / (2 pi n)) / (2 ln base).
inline Mpfr yarn_index(Index rotary_dim, double base, Index length, double rotations) {
  const Mpfr wavelength =
      Mpfr(static_cast<double>(length)) / (Mpfr(2) * Mpfr::pi() * Mpfr(rotations));
  return Mpfr(static_cast<double>(rotary_dim)) * log(wavelength) / (Mpfr(2) * log(Mpfr(base)));
}

/// Returns rho of each pair.
inline InvFreq yarn_ramp(Index rotary_dim, double base, Index length, double fast, double slow,
                         bool truncate) {
  Mpfr low = yarn_index(rotary_dim, base, length, fast);
  Mpfr high = yarn_index(rotary_dim, base, length, slow);
  if (truncate) {
    low = floor(low);
    high = Mpfr(0) - floor(Mpfr(0) - high);
  }
  low = std::max(low, Mpfr(0));
  high = std::min(high, Mpfr(static_cast<double>(rotary_dim - 1)));
  high = std::max(high, low + Mpfr(1) / Mpfr(1000));
  InvFreq rho;
  for (Index i = 0; i < rotary_dim / 2; ++i) {
    rho.push_back(clamped((Mpfr(static_cast<double>(i)) - low) / (high - low)));
  }
  return rho;
}

/// Returns a (1 - rho) + b rho.
inline InvFreq mix(const InvFreq& a, const InvFreq& b, const InvFreq& rho) {
  InvFreq w;
  for (std::size_t i = 0; i < a.size(); ++i) {
    w.push_back(a[i] * (Mpfr(1) - rho[i]) + b[i] * rho[i]);
  }
  return w;
}

inline InvFreq divided(InvFreq w, const Mpfr& factor) {
  for (Mpfr& value : w) value = value / factor;
  return w;
}

inline InvFreq inv_freq(const posenc::YarnScaling& rule) {
  const InvFreq w = power_law(rule.base, rule.rotary_dim);
  return mix(w, divided(w, rule.factor),
             yarn_ramp(rule.rotary_dim, rule.base, rule.original_max_position, rule.beta_fast,
                       rule.beta_slow, rule.truncate));
}

inline InvFreq inv_freq(const posenc::DynamicYarnScaling& rule, Index length) {
  const InvFreq w = power_law(rule.base, rule.rotary_dim);
  const Index longest =
      std::max({length, rule.original_max_position, rule.finetuned_max_position.value_or(0)});
  const Mpfr factor =
      Mpfr(static_cast<double>(longest)) / Mpfr(static_cast<double>(rule.original_max_position));
  return mix(w, divided(w, factor),
             yarn_ramp(rule.rotary_dim, rule.base, rule.original_max_position, rule.beta_fast,
                       rule.beta_slow, rule.truncate));
}

inline InvFreq inv_freq(const posenc::TwoRampNtkScaling& rule) {
  const auto ramp = [&rule](double fast, double slow) {
    return yarn_ramp(rule.rotary_dim, rule.base, rule.original_max_position, fast, slow, true);
  };
  const InvFreq w = power_law(rule.base, rule.rotary_dim);
  const InvFreq slower =
      mix(ntk(rule.base, rule.rotary_dim, rule.factor), divided(w, rule.factor), ramp(1.25, 0.75));
  return mix(w, slower, ramp(16, 2));
}

/// Returns w (gamma + (1 - gamma) / s), where gamma rises from 0 to 1 between `low` and `high`
/// rotations.
inline InvFreq by_rotations(InvFreq w, double factor, Index length, double low, double high) {
  for (Mpfr& value : w) {
    const Mpfr rotations = Mpfr(static_cast<double>(length)) * value / (Mpfr(2) * Mpfr::pi());
    const Mpfr gamma = low == high ? Mpfr(rotations < Mpfr(low) ? 0 : 1)
                                   : clamped((rotations - Mpfr(low)) / (Mpfr(high) - Mpfr(low)));
    value = value * (gamma + (Mpfr(1) - gamma) / Mpfr(factor));
  }
  return w;
}

inline InvFreq inv_freq(const posenc::NtkByPartsScaling& rule) {
  return by_rotations(power_law(rule.base, rule.rotary_dim), rule.factor,
                      rule.original_max_position, rule.alpha, rule.beta);
}

inline InvFreq inv_freq(const posenc::Llama3Scaling& rule) {
  return by_rotations(power_law(rule.base, rule.rotary_dim), rule.factor,
                      rule.original_max_position, rule.low_freq_factor, rule.high_freq_factor);
}

inline InvFreq divided_each(InvFreq w, const std::vector<double>& divisors) {
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = w[i] / Mpfr(divisors[i]);
  return w;
}

inline InvFreq inv_freq(const posenc::DivisorScaling& rule) {
  return divided_each(power_law(rule.base, rule.rotary_dim), rule.divisors);
}

inline InvFreq inv_freq(const posenc::LongRopeScaling& rule, Index length) {
  return divided_each(power_law(rule.base, rule.rotary_dim),
                      length > rule.original_max_position ? rule.long_factor : rule.short_factor);
}

inline InvFreq inv_freq(const posenc::ProportionalScaling& rule) {
  InvFreq w = divided(power_law(rule.base, rule.head_dim), rule.factor);
  const auto num_rotated_pairs =
      std::floor(rule.partial_rotary_factor * static_cast<double>(rule.head_dim) / 2);
  for (std::size_t i = 0; i < w.size(); ++i) {
    if (static_cast<double>(i) >= num_rotated_pairs) w[i] = 0;
  }
  return w;
}

}  // namespace truth
