// SPDX-License-Identifier: MIT
// What Rope and its inverse, XPos' scales and merge() promise.
#include "accuracy/bound.hpp"
#include <posenc/attention/merge.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/xpos.hpp>

namespace accuracy {
namespace {

using posenc::Positions;

template <class Real>
void add_of(std::vector<Bound>& all, const std::string& type) {
  // Attention factor, frequency, position, angle and length of the pair.
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
    const double off_c = 4e-16 + 0.5 * ulp<float>(of(c)), off_s = 4e-16 + 0.5 * ulp<float>(of(s));
    const bool is_float = std::is_same_v<Real, float>;
    const auto allowed = [&](const Mpfr& with_c, const Mpfr& with_s) {
      const double off =
          is_float ? off_c * of(with_c) + off_s * of(with_s) : 4e-16 * (of(with_c) + of(with_s));
      return static_cast<double>(m) * off +
             (inverse && POSENC_HAS_FMA == 0 ? 3 : 2) * ulp<Real>(norm);
    };
    return std::max(distance(static_cast<double>(x[0]), first) / allowed(a, b),
                    distance(static_cast<double>(x[1]), second) / allowed(b, a));
  };
  all.push_back({"Rope, rotate, " + type, ranges, [=](const Point& p) { return share(p, false); }});
  all.push_back({"Rope, inverse, " + type, ranges, [=](const Point& p) { return share(p, true); }});
  all.push_back({"merge, " + type, {{-20, 20}, {-30, 30}, {-4, 4}, {-4, 4}}, [](const Point& p) {
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
                   return distance(static_cast<double>(a), want) / (4 * ulp<Real>(larger));
                 }});
}

}  // namespace

std::vector<Bound> rotation_bounds() {
  std::vector<Bound> all;
  add_of<float>(all, "float");
  add_of<double>(all, "double");
  all.push_back(
      {"XPos, scale", {{-1e5, 1e5}, whole(0, 15), magnitude(100, 1e4)}, [](const Point& p) {
         const posenc::XPos<posenc::Interleaved> xpos(
             posenc::Unscaled{.rotary_dim = 32, .base = 10000}, {.scale_base = p[2]});
         const Mpfr zeta = Mpfr(2 * p[1] * 5 + 2 * 32) / Mpfr(7 * 32);
         const Mpfr power = log(zeta) * Mpfr(p[0]) / Mpfr(p[2]);
         if (std::abs(static_cast<double>(power)) > 511 * 0.69) return 0.0;
         const double got = xpos.scale(p[0], static_cast<posenc::Index>(p[1]));
         return support::relative_error(got, exp(power)) / 0x1p-51;
       }});
  return all;
}

}  // namespace accuracy
