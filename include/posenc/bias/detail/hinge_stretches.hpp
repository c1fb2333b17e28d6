// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/bias/detail/rising_order.hpp>
#include <posenc/core/config.hpp>
#include <posenc/core/list_view.hpp>

#include <cstddef>
#include <limits>
#include <vector>

POSENC_BEGIN
namespace detail {

/// Backward of the network whose values Hinges has: the stretches of x >= 0 between its bends, on each of which
/// the same hidden units are on. So what scores have is added up by stretches, whatever the width, and a unit
/// collects those on which it is on: where w x + b > 0.
class HingeStretches {
 public:
  HingeStretches() = default;
  HingeStretches(ListView<double> hidden_weight, ListView<double> hidden_bias) {
    const std::size_t width = hidden_weight.size();
    std::vector<std::size_t> units;  // that have a bend
    std::vector<double> places;      // of these
    const auto find = [&](bool begins) {
      for (std::size_t k = 0; k < width; ++k) {
        const double w = hidden_weight[k], b = hidden_bias[k];
        if (begins ? w > 0 && b <= 0 : w < 0 && b > 0) {
          units.push_back(k);
          places.push_back(-b / w);
        }
      }
    };
    // A unit that ends is off at its bend, one that begins is not on yet: where they share one, ends come first.
    find(false);
    const std::size_t ends = units.size();
    find(true);
    for (std::size_t k = 0; k < width; ++k) {
      const bool always = hidden_bias[k] > 0;
      on_first_.push_back(0);
      on_end_.push_back(always ? units.size() + 1 : 0);
    }
    for (const std::size_t n : rising_order(places)) {
      const bool begins = n >= ends;
      bends_.push_back(places[n]);
      below_.push_back(begins ? 1.0 : 1.0 - 0x1p-53);
      const std::size_t next = bends_.size();  // the stretch after this bend
      on_first_[units[n]] = begins ? next : 0;
      on_end_[units[n]] = begins ? units.size() + 1 : next;
    }
  }

  std::size_t count() const noexcept { return bends_.size() + 1; }

  struct Range {
    std::size_t first, end;
  };
  /// The stretches on which a hidden unit is on.
  Range on(std::size_t unit) const noexcept { return {on_first_[unit], on_end_[unit]}; }

  /// Writes count() + 1 numbers: x is on stretch n where bounds[n] < scale x <= bounds[n + 1].
  void write_bounds(double scale, double* bounds) const noexcept {
    bounds[0] = -1;
    for (std::size_t n = 0; n < bends_.size(); ++n) {
      bounds[n + 1] = bends_[n] * scale * below_[n];
    }
    bounds[count()] = std::numeric_limits<double>::infinity();
  }

 private:
  // Vectors of numbers, which exist anyhow: those of structs of its own take a compiler longer than all the rest.
  std::vector<double> bends_;  ///< by rising x
  std::vector<double>
      below_;  ///< of each: what takes a number to the one below it, where the bend itself belongs to what follows
  std::vector<std::size_t> on_first_, on_end_;  ///< the Range of each hidden unit
};

}  // namespace detail
POSENC_END
