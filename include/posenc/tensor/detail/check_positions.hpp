// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/error.hpp>
#include <posenc/tensor/position_kind.hpp>
#include <posenc/tensor/positions.hpp>

#include <array>
#include <cstddef>
#include <span>

// Checks of positions against a tensor and an encoding, before anything is written.
POSENC_BEGIN
namespace detail {

/// Throws ShapeError unless positions have the given number of axes.
inline void check_axes(const char* function, const Positions& positions, Index axes) {
  if (positions.axis_count() != axes) {
    fail<ShapeError>(function, "positions must have ", axes, axes == 1 ? " axis" : " axes",
                     " but have ", positions.axis_count());
  }
}

/// Throws PositionError if positions are coordinates of a kind that an encoding does not accept.
inline void check_kind(const char* function, const Positions& positions, PositionKind required) {
  if (!kinds_fit(required, positions.kind())) {
    fail<PositionError>(function, "positions must be ", name_of(required), ", as made by ",
                        creators_of(required), ", but are ", name_of(positions.kind()),
                        ". (Custom coordinates need Positions::real)");
  }
}

/// True if positions are those of B x S tokens. Positions of no batch row, as of ids(0, {}), have
/// no count of their own.
inline bool positions_fit(const Positions& positions, Index batch, Index seq) noexcept {
  if (positions.batch() == 0 && batch == 0 && positions.count() == 0) return true;
  return positions.count() == seq && (positions.batch() == 1 || positions.batch() == batch);
}

/// Throws ShapeError unless positions describe the B x S tokens of a tensor on the given number of
/// axes.
template <std::size_t Rank>
void check_positions(const char* function, const Positions& positions, Index batch, Index seq,
                     Index axes, const std::array<Index, Rank>& extents) {
  check_axes(function, positions, axes);
  if (!positions_fit(positions, batch, seq)) {
    fail<ShapeError>(function, "positions [", positions.batch(), ", ", positions.count(),
                     "] must match batch and sequence of x, which is ",
                     std::span<const Index>(extents));
  }
}

/// Calls visit(position) for positions on the first axis that include the smallest and the largest
/// of each batch row. It visits the two ends of a range, and all positions of other forms.
template <class Visit>
void for_extreme_positions(const Positions& positions, const Visit& visit) {
  const Index count = positions.count();
  for (Index b = 0; count != 0 && b < positions.batch(); ++b) {
    const std::span<const double> values = positions.explicit_values(b);
    for (const double position : values) visit(position);
    if (positions.is_view()) {
      for (Index s = 0; s < count; ++s) visit(positions.at(b, s));
    } else if (values.empty()) {
      visit(positions.at(b, 0));
      visit(positions.at(b, count - 1));
    }
  }
}

/// Throws PositionError unless all positions are integers, as lookups of rows and bits require.
inline void check_integral(const char* function, const Positions& positions) {
  if (!positions.integral()) {
    fail<PositionError>(function, "positions must be integers, but some have a fraction");
  }
}

}  // namespace detail
POSENC_END
