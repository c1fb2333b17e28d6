// SPDX-License-Identifier: MIT
// Extents with at least one 0, next to extents of any size, and calls with them.
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/core/error.hpp>

#include <array>
#include <cstddef>
#include <new>

namespace empty_extents {

using posenc::Index;

constexpr std::array huge{Index{1} << 31, Index{1} << 40, Index{1} << 62};

/// Makes a call that must return, throw one of posenc's errors, or throw std::bad_alloc.
template <class Call>
void make(const Call& call) {
  try {
    call();
  } catch (const posenc::ShapeError&) {
  } catch (const posenc::ConfigError&) {
  } catch (const posenc::PositionError&) {
  } catch (const std::bad_alloc&) {
  }
}

/// Calls visit(extents) for all extents with one 0, where each other is small or huge.
template <std::size_t Axes, class Visit>
void for_empty(const std::array<Index, Axes>& small, const Visit& visit) {
  for (const Index extent : huge) {
    for (std::size_t zero = 0; zero < Axes; ++zero) {
      for (unsigned which = 0; which < 1U << Axes; ++which) {
        std::array<Index, Axes> extents = small;
        for (std::size_t axis = 0; axis < Axes; ++axis) {
          if ((which >> axis & 1) != 0) extents[axis] = extent;
        }
        extents[zero] = 0;
        visit(extents);
      }
    }
  }
}

/// Calls visit(extents) for all extents where any axes are 0 and all others are equal, from 0 to
/// 64.
template <std::size_t Axes, class Visit>
void for_zeros(const Visit& visit) {
  for (Index count = 0; count <= 64; ++count) {
    for (unsigned zeros = 1; zeros < 1U << Axes; ++zeros) {
      std::array<Index, Axes> extents{};
      for (std::size_t axis = 0; axis < Axes; ++axis) {
        extents[axis] = (zeros >> axis & 1) != 0 ? 0 : count;
      }
      visit(extents);
    }
  }
}

/// Calls visit(extents) for the extents of both functions above.
template <std::size_t Axes, class Visit>
void for_all_empty(const std::array<Index, Axes>& small, const Visit& visit) {
  for_empty<Axes>(small, visit);
  for_zeros<Axes>(visit);
}

}  // namespace empty_extents
