// SPDX-License-Identifier: MIT
#pragma once

#include "sample.hpp"
#include <posenc/tensor/adapt.hpp>
#include <posenc/tensor/positions.hpp>

namespace tour {

/// Returns the increments of an additive encoding at each position, [positions, width].
template <class Rows = Matrix, class Encoding>
Rows increments(const Encoding& encoding, const posenc::Positions& positions, Index width) {
  Rows x = Rows::Zero(positions.count(), width);
  encoding.add_to(posenc::sd(x), positions);
  return x;
}

/// Returns a copy of a view's sequence 0, [S, D].
template <class View>
Eigen::MatrixXd rows_of(const View& view) {
  Eigen::MatrixXd rows(Index{view.seq}, Index{view.dim});  // Eigen takes integers alone
  for (Index s = 0; s < view.seq; ++s) {
    for (Index d = 0; d < view.dim; ++d) rows(s, d) = static_cast<double>(view.row(0, s)[d]);
  }
  return rows;
}

/// Returns the share of channels whose values at positions 64 .. 127 are within 1 % of their range
/// at 0 .. 63, the trained length. codes: [128, channels]
double share_in_trained_range(const Eigen::MatrixXd& codes);

/// Returns a table of random rows with mean 0, like a learned table before training.
Matrix random_table(Index rows, Index width, std::uint64_t seed, double deviation = 1);

}  // namespace tour
