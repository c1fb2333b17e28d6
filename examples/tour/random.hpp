// SPDX-License-Identifier: MIT
#pragma once

#include <cmath>
#include <cstdint>

namespace tour {

/// Random numbers that depend on the seed alone (SplitMix64; Steele, Lea, Flood 2014), so that
/// every run of the tour shows the same pictures.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  /// Returns a number in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Returns a number with mean 0 and variance 1 (Box and Muller 1958).
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  std::uint64_t next() {
    std::uint64_t x = state_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  std::uint64_t state_;
};

}  // namespace tour
