// SPDX-License-Identifier: MIT
// Documented bound of resize_grid: sums within 1e-14 of the largest input.
#include "accuracy/bound.hpp"
#include "accuracy/promises.hpp"
#include <posenc/additive/grid_resize.hpp>

namespace accuracy {
namespace {

using posenc::Index;

/// Returns Keys' cubic with a = -0.75.
Mpfr cubic(const Mpfr& x) {
  const Mpfr a = -0.75, one = 1.0, t = absolute(x);
  if (t < one) return ((a + Mpfr(2)) * t - (a + Mpfr(3))) * t * t + one;
  if (t < Mpfr(2)) return ((a * t - Mpfr(5) * a) * t + Mpfr(8) * a) * t - Mpfr(4) * a;
  return 0.0;
}

Mpfr hat(const Mpfr& x) {
  const Mpfr t = absolute(x);
  return t < Mpfr(1) ? Mpfr(1) - t : Mpfr(0);
}

/// Returns the error share for a line of five cells, resized to p[0] cells.
double share_of_resize(const Point& p, posenc::ResizeFilter filter) {
  constexpr Index source = 5;
  const auto target = static_cast<Index>(p[0]);
  std::vector<double> out(static_cast<std::size_t>(target));
  posenc::resize_grid(posenc::MatrixView<const double>{.data = &p[1], .rows = source, .cols = 1},
                      posenc::MatrixView<double>{.data = out.data(), .rows = target, .cols = 1},
                      {.source = {1, source}, .target = {1, target}, .filter = filter});
  const bool bicubic = filter == posenc::ResizeFilter::Bicubic;
  double worst = 0, largest = 0;
  for (Index i = 0; i < source; ++i) {
    largest = std::max(largest, std::abs(p[1 + static_cast<std::size_t>(i)]));
  }
  for (Index cell = 0; cell < target; ++cell) {
    const Mpfr at =
        Mpfr(static_cast<double>(2 * cell + 1) * source) / Mpfr(static_cast<double>(2 * target)) -
        Mpfr(0.5);
    const auto nearest = static_cast<Index>(std::floor(static_cast<double>(at)));
    Mpfr want = 0.0;
    for (Index tap = nearest - 1; tap <= nearest + 2; ++tap) {
      const Mpfr off = at - Mpfr(static_cast<double>(tap));
      const auto index = static_cast<std::size_t>(std::clamp<Index>(tap, 0, source - 1));
      want = want + (bicubic ? cubic(off) : hat(off)) * Mpfr(p[1 + index]);
    }
    worst = std::max(worst, distance(out[static_cast<std::size_t>(cell)], want));
  }
  return worst / (promises::resize.value() * largest);
}

}  // namespace

std::vector<Bound> resize_bounds() {
  std::vector<Range> ranges{whole(1, 40)};
  for (int i = 0; i < 5; ++i) ranges.push_back({-1, 1});
  return {{"resize_grid, bicubic", ranges,
           [](const Point& p) { return share_of_resize(p, posenc::ResizeFilter::Bicubic); }},
          {"resize_grid, bilinear", ranges,
           [](const Point& p) { return share_of_resize(p, posenc::ResizeFilter::Bilinear); }}};
}

}  // namespace accuracy
