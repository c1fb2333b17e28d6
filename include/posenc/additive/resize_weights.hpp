// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/mul_add.hpp>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <span>
#include <vector>

POSENC_STABLE_BEGIN

/// The filter of a resize, as in torch.
enum class ResizeFilter {
  Unspecified,  ///< no filter is given, which is a ConfigError
  Bilinear,     ///< linear on each axis
  Bicubic       ///< Keys' cubic with a = -0.75, or -0.5 if antialiased
};

/// The source point that a target cell samples, on either axis.
enum class ResizeCoordinates {
  HalfPixel,     ///< (target + 0.5) * source_size / target_size - 0.5: torch's align_corners=False
  AlignCorners,  ///< target * (source_size - 1) / (target_size - 1): torchtune's CLIP tiles
  /// For tables of relative positions, whose middle cell is distance 0. Target cells are at integer
  /// distances from it. Source cells are at distances 1, 1 + q, 1 + q + q^2, ..., with q chosen so
  /// that both grids end together, if 1.01 < q < 1.5 allows it.
  /// timm's resize_rel_pos_bias_table, after BEiT's. Bilinear only.
  Geometric
};

POSENC_STABLE_END

POSENC_BEGIN
namespace detail {

/// The settings of one axis of a resize.
struct ResizeAxis {
  Index source = 0;
  Index target = 0;
  ResizeFilter filter = ResizeFilter::Unspecified;
  ResizeCoordinates coordinates = ResizeCoordinates::HalfPixel;
  bool antialias = false;
  double step = 0;  ///< source cells per target cell under HalfPixel
};

/// The source cells and weights of a target cell, which is the sum over t of weights[t] *
/// source[first + t].
struct ResizeTaps {
  Index first = 0;
  std::span<const double> weights;
};

/// The taps of all target cells of an axis: a sparse [target, source] matrix.
class ResizeWeights {
 public:
  explicit ResizeWeights(const ResizeAxis& axis) : axis_(axis) {
    if (axis.coordinates == ResizeCoordinates::Geometric) compute_geometric_grid();
    const auto cells = static_cast<std::size_t>(axis.target);
    first_.reserve(cells);
    begin_.reserve(cells + 1);
    begin_.push_back(0);
    for (Index cell = 0; cell < axis.target; ++cell) {
      if (axis.coordinates == ResizeCoordinates::Geometric) {
        push_geometric(cell);
      } else if (axis.antialias) {
        push_antialiased(cell);
      } else {
        push_clamped(cell);
      }
      begin_.push_back(weights_.size());
    }
  }

  ResizeTaps operator[](Index cell) const noexcept {
    const auto i = static_cast<std::size_t>(cell);
    return {first_[i], {weights_.data() + begin_[i], begin_[i + 1] - begin_[i]}};
  }

 private:
  /// Returns the radius of the filter in cells.
  Index filter_radius() const noexcept { return axis_.filter == ResizeFilter::Bicubic ? 2 : 1; }

  double filter_weight(double distance) const noexcept {
    const double x = std::abs(distance);
    if (axis_.filter == ResizeFilter::Bilinear) return (std::max)(1 - x, 0.0);
    const double a = axis_.antialias ? -0.5 : -0.75;
    if (x <= 1) return mul_add(mul_add(a + 2, x, -(a + 3)), x * x, 1.0);
    if (x < 2) return mul_add(mul_add(mul_add(a, x, -5 * a), x, 8 * a), x, -4 * a);
    return 0;
  }

  double source_coordinate(Index cell) const noexcept {
    if (axis_.coordinates == ResizeCoordinates::HalfPixel) {
      return mul_add(static_cast<double>(cell) + 0.5, axis_.step, -0.5);
    }
    if (axis_.target == 1) return 0;
    return static_cast<double>(cell) * static_cast<double>(axis_.source - 1) /
           static_cast<double>(axis_.target - 1);
  }

  /// Appends the taps of a cell. A sample beyond the border adds its weight to the border sample.
  void push_clamped(Index cell) {
    const double centre = source_coordinate(cell);
    const auto left = static_cast<Index>(std::floor(centre));
    const auto clamp = [&](Index sample) { return std::clamp(sample, Index{0}, axis_.source - 1); };
    const Index low = left - filter_radius() + 1, high = left + filter_radius();
    const Index first = clamp(low);
    first_.push_back(first);
    weights_.resize(weights_.size() + static_cast<std::size_t>(clamp(high) - first + 1));
    double* taps = weights_.data() + begin_.back();
    for (Index sample = low; sample <= high; ++sample) {
      taps[clamp(sample) - first] += filter_weight(centre - static_cast<double>(sample));
    }
  }

  /// Appends the taps of a cell with a filter as wide as a target cell. Samples beyond the border
  /// are dropped, and the other weights are scaled to sum to 1.
  void push_antialiased(Index cell) {
    const double centre = source_coordinate(cell);
    const double stretch = (std::max)(axis_.step, 1.0);
    const double support = static_cast<double>(filter_radius()) * stretch;
    const Index low = (std::max)(static_cast<Index>(std::floor(centre - support)) + 1, Index{0});
    const Index high =
        (std::min)(static_cast<Index>(std::ceil(centre + support)) - 1, axis_.source - 1);
    first_.push_back(low);
    double sum = 0;
    for (Index sample = low; sample <= high; ++sample) {
      weights_.push_back(filter_weight((static_cast<double>(sample) - centre) / stretch));
      sum += weights_.back();
    }
    for (std::size_t tap = begin_.back(); tap < weights_.size(); ++tap) weights_[tap] /= sum;
  }

  /// Computes the distances of the source's cells from the middle cell on; q is found by bisection,
  /// as in timm.
  void compute_geometric_grid() {
    const Index source_radius = axis_.source / 2, target_radius = axis_.target / 2;
    double low = 1.01, high = 1.5, q = high;
    while (high - low > 1e-6) {
      q = (low + high) / 2;
      double last = 0;  // 1 + q + ... + q^(source_radius - 1)
      for (Index n = 0; n < source_radius; ++n) last = mul_add(last, q, 1.0);
      (last > static_cast<double>(target_radius) ? high : low) = q;
    }
    double distance = 0;
    for (Index n = 0; n <= source_radius; ++n) {
      distances_.push_back(distance);
      distance = mul_add(distance, q, 1.0);
    }
  }

  /// Appends the taps of a cell of the geometric grid. Cells beyond the border read the border
  /// cell.
  void push_geometric(Index cell) {
    const Index from_middle = cell - axis_.target / 2, middle = axis_.source / 2;
    const auto distance = static_cast<double>(from_middle < 0 ? -from_middle : from_middle);
    const auto after = std::lower_bound(distances_.begin(), distances_.end(), distance);
    const Index steps = (std::min)(static_cast<Index>(after - distances_.begin()), middle);
    if (after == distances_.end() || *after == distance) {
      first_.push_back(from_middle < 0 ? middle - steps : middle + steps);
      weights_.push_back(1);
      return;
    }
    const double before = *std::prev(after), beyond = (distance - before) / (*after - before);
    first_.push_back(from_middle < 0 ? middle - steps : middle + steps - 1);
    weights_.push_back(from_middle < 0 ? beyond : 1 - beyond);
    weights_.push_back(from_middle < 0 ? 1 - beyond : beyond);
  }

  ResizeAxis axis_;
  std::vector<double> distances_;  ///< only for Geometric
  std::vector<Index> first_;
  std::vector<std::size_t> begin_;
  std::vector<double> weights_;
};

}  // namespace detail
POSENC_END
