// SPDX-License-Identifier: MIT
#pragma once

#include "sample.hpp"
#include <posenc/tensor/adapt.hpp>
#include <posenc/tensor/positions.hpp>

namespace tour {

/// What an additive encoding adds at each position, [positions, width].
template <class Rows = Matrix, class Encoding>
Rows increments(const Encoding& encoding, const posenc::Positions& positions, Index width) {
  Rows x = Rows::Zero(positions.count(), width);
  encoding.add_to(posenc::sd(x), positions);
  return x;
}

/// Copies a view's sequence 0 out of its tensor, [S, D].
template <class View>
Eigen::MatrixXd rows_of(const View& view) {
  Eigen::MatrixXd rows(view.seq, view.dim);
  for (Index s = 0; s < view.seq; ++s) {
    for (Index d = 0; d < view.dim; ++d) rows(s, d) = static_cast<double>(view.row(0, s)[d]);
  }
  return rows;
}

/// Share of the channels that take no value at positions 64 .. 127 that they did not take, to within
/// 1 % of their range, at 0 .. 63, the trained length. codes [128, channels]
double share_in_trained_range(const Eigen::MatrixXd& codes);

/// A table of random rows, mean 0: what a learned table is before training.
Matrix random_table(Index rows, Index width, std::uint64_t seed, double deviation = 1);

}  // namespace tour
