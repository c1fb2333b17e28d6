// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/detail/argsort.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/list_view.hpp>

#include <cstddef>
#include <limits>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Segments of x >= 0 between the breakpoints of the ReLU network. On each of them the set of
/// active units is constant. Backward sums gradients per segment, at a cost independent of the
/// width, and then per unit over the segments on which w x + b > 0.
class ReluSegments {
 public:
  ReluSegments() = default;
  ReluSegments(ListView<double> hidden_weight, ListView<double> hidden_bias) {
    const std::size_t width = hidden_weight.size();
    std::vector<std::size_t> units;   // units with a breakpoint
    std::vector<double> breakpoints;  // their breakpoints
    const auto find = [&](bool begins) {
      for (std::size_t k = 0; k < width; ++k) {
        const double w = hidden_weight[k], b = hidden_bias[k];
        if (begins ? w > 0 && b <= 0 : w < 0 && b > 0) {
          units.push_back(k);
          breakpoints.push_back(-b / w);
        }
      }
    };
    // Each unit is inactive at its breakpoint. Where units share one, those that end therefore come
    // first.
    find(false);
    const std::size_t ends = units.size();
    find(true);
    for (std::size_t k = 0; k < width; ++k) {
      const bool always = hidden_bias[k] > 0;
      first_segment_.push_back(0);
      end_segment_.push_back(always ? units.size() + 1 : 0);
    }
    for (const std::size_t n : argsort(breakpoints)) {
      const bool begins = n >= ends;
      breakpoints_.push_back(breakpoints[n]);
      bound_scale_.push_back(begins ? 1.0 : 1.0 - 0x1p-53);
      const std::size_t next = breakpoints_.size();  // the segment after this breakpoint
      first_segment_[units[n]] = begins ? next : 0;
      end_segment_[units[n]] = begins ? units.size() + 1 : next;
    }
  }

  std::size_t count() const noexcept { return breakpoints_.size() + 1; }

  struct Range {
    std::size_t first, end;
  };
  /// Returns the segments on which a hidden unit is active.
  Range active_segments(std::size_t unit) const noexcept {
    return {first_segment_[unit], end_segment_[unit]};
  }

  /// Writes count() + 1 numbers: x is on segment n if bounds[n] < scale x <= bounds[n + 1].
  void write_bounds(double scale, double* bounds) const noexcept {
    bounds[0] = -1;
    for (std::size_t n = 0; n < breakpoints_.size(); ++n) {
      bounds[n + 1] = breakpoints_[n] * scale * bound_scale_[n];
    }
    bounds[count()] = std::numeric_limits<double>::infinity();
  }

 private:
  // std::vector<double> is instantiated anyway; a vector of a struct would cost more compile time
  // than the rest of the class.
  std::vector<double> breakpoints_;  ///< ascending
  /// Per breakpoint: factor that makes the bound exclusive where a unit ends, or 1.
  std::vector<double> bound_scale_;
  std::vector<std::size_t> first_segment_, end_segment_;  ///< the Range of each hidden unit
};

}  // namespace detail
POSENC_END
