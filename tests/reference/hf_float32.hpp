// SPDX-License-Identifier: MIT
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

/// Float32 pipeline of PyTorch and Hugging Face in float variables. `volatile` prevents compilers
/// from fusing a product and a sum. Powers are correctly rounded, which those of PyTorch are not
/// always.
namespace reference::hf_float32 {

using Floats = std::vector<float>;

inline Floats powers(float base, std::int64_t rotary_dim) {
  Floats p;
  for (std::int64_t i = 0; i < rotary_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(rotary_dim);
    p.push_back(static_cast<float>(
        std::pow(static_cast<long double>(base), static_cast<long double>(exponent))));
  }
  return p;
}

inline Floats unscaled(float base, std::int64_t rotary_dim) {
  Floats w = powers(base, rotary_dim);
  for (float& x : w) x = 1.0F / x;
  return w;
}

/// YaRN with given ends of the ramp.
inline Floats yarn(float base, std::int64_t rotary_dim, float factor, float low, float high) {
  const Floats p = powers(base, rotary_dim);
  Floats w;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const float ramp = std::clamp((static_cast<float>(i) - low) / (high - low), 0.0F, 1.0F);
    const float kept = 1.0F - ramp;
    volatile float scaled = factor * p[i];
    volatile float slow = (1.0F / scaled) * (1.0F - kept);
    volatile float fast = (1.0F / p[i]) * kept;
    w.push_back(slow + fast);
  }
  return w;
}

inline Floats llama3(float base, std::int64_t rotary_dim, float factor, float low, float high,
                     float length) {
  Floats w = unscaled(base, rotary_dim);
  for (float& x : w) {
    volatile float inverse = 1.0F / x;
    const float wavelength = inverse * static_cast<float>(2 * std::numbers::pi);
    if (wavelength < length / high) continue;
    if (wavelength > length / low) {
      x = x / factor;
      continue;
    }
    volatile float rotations = (1.0F / wavelength) * length;
    const float smooth = (rotations - low) / (high - low);
    volatile float slow = (1.0F - smooth) * x / factor;
    volatile float fast = smooth * x;
    x = slow + fast;
  }
  return w;
}

inline Floats longrope(float base, std::int64_t rotary_dim, const std::vector<double>& divisors) {
  Floats w = powers(base, rotary_dim);
  for (std::size_t i = 0; i < w.size(); ++i) {
    volatile float scaled = static_cast<float>(divisors.at(i)) * w[i];
    w[i] = 1.0F / scaled;
  }
  return w;
}

}  // namespace reference::hf_float32
