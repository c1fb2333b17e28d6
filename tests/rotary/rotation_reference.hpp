// SPDX-License-Identifier: MIT
#pragma once

#include "reference/rope.hpp"
#include "support/compare.hpp"
#include "support/heads.hpp"
#include "support/worse.hpp"
#include <posenc/rotary/pairing.hpp>
#include <posenc/tensor/positions.hpp>

#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <type_traits>
#include <vector>

namespace rotation {

using posenc::Index;

using Scalars = std::tuple<float, double, Eigen::half, Eigen::bfloat16>;

template <class Test>
void for_each_pairing(const Test& test) {
  test(posenc::Interleaved{});
  test(posenc::HalfRotate{});
}

template <class Pairing>
constexpr reference::Pairing reference_pairing =
    std::is_same_v<Pairing, posenc::Interleaved> ? reference::Pairing::Interleaved
                                                 : reference::Pairing::HalfRotate;

/// Returns base^(-2i/rotary_dim) as doubles, which posenc and the reference both take as exact.
inline std::vector<double> plain_frequencies(Index rotary_dim, double base = 10000) {
  std::vector<double> w;
  for (Index i = 0; i < rotary_dim / 2; ++i) {
    w.push_back(std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(rotary_dim)));
  }
  return w;
}

inline std::vector<long double> exact(const std::vector<double>& w) {
  return std::vector<long double>(w.begin(), w.end());
}

/// Returns the allowed error of a rotated channel whose pair has norm n (attention factor
/// included).
///
/// With ulp(n) >= 2^-p n: the store rounds by 1/2 ulp(n), and so does the product under the fma.
/// Rounding cos and sin by 2^-p of themselves changes |cos x0| + |sin x1| <= n by at most 2^-p n <=
/// ulp(n). In total: 2 ulp.
/// If a * b + c is not fused, the other product is rounded too. Only one of the two products can be
/// in n's binade, so this adds 1/4 ulp. `extra_roundings` is the number of additional roundings of
/// cos and sin. The error of the angle, `angle_error`, counts twice. The reference is off by less
/// than an ulp of double.
template <class T>
double tolerance(double n, double angle_error = 4e-16, double extra_roundings = 0) {
  using Real = posenc::Compute<T>;
  const double ulp = static_cast<double>(support::ulp_of(static_cast<Real>(n)));
  const double arithmetic = (POSENC_HAS_FMA ? 2 : 2.25) * ulp + extra_roundings * ulp;
  const double storage = sizeof(T) == 2 ? support::rounding<T>(n + arithmetic) : 0.0;
  const double reference = std::is_same_v<T, double> ? ulp / 2 : 0.0;
  return arithmetic + storage + reference + std::sqrt(2.0) * angle_error * n;
}

enum class Direction { Forward, Adjoint, Inverse };

/// The expected rotation of a tensor.
struct Expectation {
  std::vector<long double> inv_freq;
  reference::RopeRule rule;
  Direction direction = Direction::Forward;
  double angle_error = 4e-16;
};

inline std::vector<double> expected_row(const Expectation& expect, const std::vector<double>& x,
                                        double position) {
  switch (expect.direction) {
    case Direction::Adjoint:
      return reference::rotate_adjoint(x, position, expect.inv_freq, expect.rule);
    case Direction::Inverse:
      return reference::rotate_inverse(x, position, expect.inv_freq, expect.rule);
    case Direction::Forward:
      break;
  }
  return reference::rotate(x, position, expect.inv_freq, expect.rule);
}

/// The tolerance of a pair whose norm before the rotation is 1.
struct PairTolerance {
  double norm = 1;             ///< its norm after the rotation
  double angle_error = 4e-16;  ///< error of cos and sin
  double extra_roundings = 0;  ///< additional roundings of cos and sin
};

/// Returns the largest error of y against row(b, s, h, head vector of x), as a multiple of its
/// tolerance. Infinite if a channel that is not rotated differs. tolerance(b, s, i) is the
/// tolerance of pair i.
///   Shapes: x, y [B, S, H, D]
template <class T, class Row, class ToleranceOf>
double worst_error_of_rows(posenc::HeadsView<T> x, posenc::HeadsView<T> y,
                           const reference::RopeRule& rule, std::size_t pairs, const Row& row,
                           const ToleranceOf& tolerance_of) {
  double worst = 0;
  for (Index b = 0; b < x.batch; ++b) {
    for (Index s = 0; s < x.seq; ++s) {
      for (Index h = 0; h < x.heads; ++h) {
        const auto in = support::row_of(x, b, s, h), out = support::row_of(y, b, s, h);
        const auto want = row(b, s, h, in);
        std::vector<double> allowed(in.size(), 0.0);
        for (std::size_t i = 0; i < pairs; ++i) {
          const auto at = reference::pair_channels(rule, pairs, i);
          const PairTolerance pair = tolerance_of(b, s, i);
          const double n = pair.norm * std::hypot(in[at.first], in[at.second]);
          allowed[at.first] = allowed[at.second] =
              tolerance<T>(n, pair.angle_error, pair.extra_roundings);
        }
        for (std::size_t d = 0; d < in.size(); ++d) {
          const double error = support::abs_difference(out[d], want[d]);
          if (error != 0) worst = support::worse(worst, error / allowed[d]);
        }
      }
    }
  }
  return worst;
}

/// Returns the largest error against the reference rotation by positions [B * S].
template <class T>
double worst_error(posenc::HeadsView<T> x, posenc::HeadsView<T> y,
                   const std::vector<double>& positions, const Expectation& expect) {
  const double m = expect.direction == Direction::Inverse ? 1 / expect.rule.attention_factor
                                                          : expect.rule.attention_factor;
  // The inverse multiplies a rounded m cos by a rounded 1 / m^2: two roundings more.
  const double extra = expect.direction == Direction::Inverse && m != 1 ? 2 : 0;
  return worst_error_of_rows(
      x, y, expect.rule, expect.inv_freq.size(),
      [&](Index b, Index s, Index, const std::vector<double>& in) {
        return expected_row(expect, in, positions.at(static_cast<std::size_t>(b * x.seq + s)));
      },
      [&](Index, Index, std::size_t) {
        return PairTolerance{m, expect.angle_error, extra};
      });
}

/// Returns the largest error against cos and sin from rotation_at(b, s), with the attention factor
/// of the rule.
template <class T, class RotationAt>
double worst_error_of_rotations(posenc::HeadsView<T> x, posenc::HeadsView<T> y,
                                const reference::RopeRule& rule, std::size_t pairs,
                                const RotationAt& rotation_at, double angle_error = 4e-16) {
  return worst_error_of_rows(
      x, y, rule, pairs,
      [&](Index b, Index s, Index, const std::vector<double>& in) {
        return reference::rotate_by(in, rotation_at(b, s), rule);
      },
      [&](Index, Index, std::size_t) {
        return PairTolerance{rule.attention_factor, angle_error};
      });
}

/// Applies posenc's rotation to x in the given direction, in place.
template <class T, class Rope>
void apply(const Rope& rope, Direction direction, posenc::HeadsView<T> x,
           const posenc::Positions& positions) {
  if (direction == Direction::Forward) rope.rotate(x, positions);
  if (direction == Direction::Adjoint) rope.adjoint(x, positions);
  if (direction == Direction::Inverse) rope.inverse(x, positions);
}

}  // namespace rotation
