// SPDX-License-Identifier: MIT
// Documented bounds of Rope, its inverse, rerotate, shift_keys, MixedRope and the scales of XPos.
#include "accuracy/bound.hpp"
#include "accuracy/promises.hpp"
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/rerotate.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/xpos.hpp>

#include <limits>

namespace accuracy {
namespace {

using posenc::HeadsView;
using posenc::Positions;
using Rope = posenc::Rope<posenc::Interleaved>;

Rope rope_of(double w, double factor = 1) {
  return Rope(posenc::Frequencies::from_inv_freq(std::span<const double>(&w, 1), factor));
}

double magnitude_of(const Mpfr& z) { return std::abs(static_cast<double>(z)); }

/// One pair, and its exact rotation m R_angle.
template <class Real>
struct Pair {
  Real x[2];
  Mpfr first, second;
  double norm;

  Pair(double angle, double length)
      : x{static_cast<Real>(length * std::cos(angle)), static_cast<Real>(length * std::sin(angle))},
        first(static_cast<double>(x[0])),
        second(static_cast<double>(x[1])),
        norm(magnitude_of(sqrt(first * first + second * second))) {}

  HeadsView<Real> view() { return {.data = &x[0], .batch = 1, .seq = 1, .heads = 1, .dim = 2}; }

  void expect_turned_by(const Mpfr& angle, const Mpfr& m) {
    const Mpfr c = cos(angle), s = sin(angle), a = first, b = second;
    first = m * (c * a - s * b);
    second = m * (s * a + c * b);
  }

  double error() const {
    return std::max(distance(static_cast<double>(x[0]), first),
                    distance(static_cast<double>(x[1]), second));
  }
};

/// Rotations composed of others, where each angle is one that Rope accepts.
template <class Real>
void add_composed(std::vector<Bound>& all, const std::string& type) {
  const bool is_float = std::is_same_v<Real, float>;
  // Coordinates: angle and length of the pair, frequencies, positions, attention factors.
  all.push_back(
      {"rerotate, " + type,
       {{0, 6.3},
        magnitude(0.5, 2),
        magnitude(1e-6, 10),
        magnitude(1e-6, 10),
        whole(-1e6, 1e6),
        whole(-1e6, 1e6),
        magnitude(0.5, 2),
        magnitude(0.5, 2)},
       [=](const Point& p) {
         Pair<Real> pair(p[0], p[1]);
         const Rope from = rope_of(p[2], p[6]), to = rope_of(p[3], p[7]);
         const auto before = Positions::real({p[4]}), after = Positions::real({p[5]});
         Pair<Real> direct = pair;
         from.rotate(pair.view(), before);
         posenc::rerotate(pair.view(), from, before, to, after);
         to.rotate(direct.view(), after);
         const double off = static_cast<double>(
             std::max(std::abs(pair.x[0] - direct.x[0]), std::abs(pair.x[1] - direct.x[1])));
         const double of_cos_sin = promises::near_angle.value() + (is_float ? 0x1p-25 : 0);
         const double of_product = 2 * static_cast<double>(std::numeric_limits<Real>::epsilon());
         const double of_one = std::sqrt(2) * of_cos_sin + of_product;
         const double found =
             (is_float ? promises::rerotate_float : promises::rerotate_double).value();
         const double norm = p[7] * pair.norm;
         return std::max(off / (3 * of_one * norm), off / (found * ulp<Real>(norm)));
       }});
  all.push_back({"shift_keys, " + type,
                 {{0, 6.3}, magnitude(0.5, 2), magnitude(1e-6, 10), whole(-1e6, 1e6)},
                 [=](const Point& p) {
                   Pair<Real> pair(p[0], p[1]);
                   posenc::shift_keys(pair.view(), rope_of(p[2], 3), Positions::real({p[3]}));
                   pair.expect_turned_by(Mpfr(p[2]) * Mpfr(p[3]), 1);
                   const double off = is_float ? 0x1p-24 * pair.norm : 0;
                   return pair.error() / (off + 8e-16 * pair.norm + 2 * ulp<Real>(pair.norm));
                 }});
  // Three axes: two sums of angles.
  all.push_back(
      {"MixedRope, " + type,
       {{0, 6.3},
        magnitude(0.5, 2),
        {-10, 10},
        {-10, 10},
        {-10, 10},
        {-1e5, 1e5},
        {-1e5, 1e5},
        {-1e5, 1e5}},
       [=](const Point& p) {
         Pair<Real> pair(p[0], p[1]);
         const posenc::MixedRope<posenc::Interleaved> mixed(
             std::span<const double>(&p[2], 3), {.axes = 3, .heads = 1, .rotary_dim = 2});
         const Positions of_axes[] = {Positions::real({p[5]}), Positions::real({p[6]}),
                                      Positions::real({p[7]})};
         mixed.rotate(pair.view(), Positions::axes(of_axes));
         pair.expect_turned_by(
             Mpfr(p[2]) * Mpfr(p[5]) + Mpfr(p[3]) * Mpfr(p[6]) + Mpfr(p[4]) * Mpfr(p[7]), 1);
         const double of_cos_sin = 3 * promises::near_angle.value() +
                                   2 * promises::mixed_axis.value() + (is_float ? 0x1p-25 : 0);
         return pair.error() / (2 * of_cos_sin * pair.norm + 2 * ulp<Real>(pair.norm));
       }});
}

template <class Real>
void add_rotations(std::vector<Bound>& all, const std::string& type) {
  // Coordinates: attention factor, frequency, position, angle and length of the pair.
  const std::vector<Range> ranges{
      magnitude(1e-24, 1e24), magnitude(1e-6, 10), whole(-1e6, 1e6), {0, 6.3}, magnitude(0.5, 2)};
  const auto share = [](const Point& p, bool inverse) {
    Real x[2] = {static_cast<Real>(p[4] * std::cos(p[3])),
                 static_cast<Real>(p[4] * std::sin(p[3]))};
    const Mpfr a = static_cast<double>(x[0]), b = static_cast<double>(x[1]);
    const posenc::Rope<posenc::Interleaved> rope(
        posenc::Frequencies::from_inv_freq(std::span<const double>(&p[1], 1), p[0]));
    const posenc::HeadsView<Real> view{&x[0], 1, 1, 1, 2, 2, 2, 2};
    const auto positions = Positions::real({p[2]});
    const Mpfr m = inverse ? Mpfr(1) / Mpfr(p[0]) : Mpfr(p[0]);
    if (inverse) {
      rope.inverse(view, positions);
    } else {
      rope.rotate(view, positions);
    }
    const Mpfr angle = Mpfr(p[1]) * Mpfr(p[2]);
    const Mpfr c = cos(angle), s = inverse ? Mpfr(0) - sin(angle) : sin(angle);
    const Mpfr first = m * (c * a - s * b), second = m * (s * a + c * b);
    const double norm = static_cast<double>(m * sqrt(a * a + b * b));
    const auto of = [](const Mpfr& z) { return std::abs(static_cast<double>(z)); };
    const double near = promises::near_angle.value(), half = promises::float_angle.value();
    const double off_c = near + half * ulp<float>(of(c)), off_s = near + half * ulp<float>(of(s));
    const bool is_float = std::is_same_v<Real, float>;
    const auto allowed = [&](const Mpfr& with_c, const Mpfr& with_s) {
      const double off =
          is_float ? off_c * of(with_c) + off_s * of(with_s) : near * (of(with_c) + of(with_s));
      return static_cast<double>(m) * off +
             (inverse && POSENC_HAS_FMA == 0 ? promises::inverse_without_fma : promises::rotation)
                     .value() *
                 ulp<Real>(norm);
    };
    return std::max(distance(static_cast<double>(x[0]), first) / allowed(a, b),
                    distance(static_cast<double>(x[1]), second) / allowed(b, a));
  };
  all.push_back({"Rope, rotate, " + type, ranges, [=](const Point& p) { return share(p, false); }});
  all.push_back({"Rope, inverse, " + type, ranges, [=](const Point& p) { return share(p, true); }});
}

}  // namespace

std::vector<Bound> rotation_bounds() {
  std::vector<Bound> all;
  add_rotations<float>(all, "float");
  add_rotations<double>(all, "double");
  add_composed<float>(all, "float");
  add_composed<double>(all, "double");
  all.push_back(
      {"XPos, scale", {{-1e5, 1e5}, whole(0, 15), magnitude(100, 1e4)}, [](const Point& p) {
         const posenc::XPos<posenc::Interleaved> xpos(
             posenc::Unscaled{.rotary_dim = 32, .base = 10000}, {.scale_base = p[2]});
         const Mpfr zeta = Mpfr(2 * p[1] * 5 + 2 * 32) / Mpfr(7 * 32);
         const Mpfr power = log(zeta) * Mpfr(p[0]) / Mpfr(p[2]);
         if (std::abs(static_cast<double>(power)) > 511 * 0.69) return 0.0;
         const double got = xpos.scale(p[0], static_cast<posenc::Index>(p[1]));
         return support::relative_error(got, exp(power)) / promises::xpos_scale.value();
       }});
  return all;
}

}  // namespace accuracy
