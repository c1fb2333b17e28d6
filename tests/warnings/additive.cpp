// SPDX-License-Identifier: MIT
// additive/: every encoding, its gradients, and the resize of a grid of embeddings.
#include "tensors.hpp"
#include <posenc/additive/binary.hpp>
#include <posenc/additive/grid_resize.hpp>
#include <posenc/additive/integer.hpp>
#include <posenc/additive/learned.hpp>
#include <posenc/additive/resize_weights.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/additive/sinusoidal_2d.hpp>

#include <Eigen/Core>

using posenc::Positions;
using warnings::Index;

template <class T>
double encode(posenc::SinusoidalLayout layout, Index dim) {
  auto x = warnings::ones<T>(6, 1, dim);
  const posenc::Sinusoidal encoding({.model_dim = dim, .layout = layout, .base = 10000});
  encoding.add_to(x.rows(), Positions::range(0, 6));
  encoding.write_to(x.rows(), Positions::ids({5, 0, 2, 9, 1, 3}));
  return encoding.scale_gradient(x.rows(), Positions::range(0, 6)) +
         static_cast<double>(x.values[1]);
}

template <class T>
double encode_all() {
  auto x = warnings::ones<T>(6, 1, 64);
  auto table = warnings::ones<T>(10, 1, 64);
  const posenc::Sinusoidal2d grid({.model_dim = 64,
                                   .axis_order = posenc::GridAxisOrder::RowFirst,
                                   .layout = posenc::SinusoidalLayout::Interleaved});
  grid.add_to(x.rows(), Positions::grid(2, 3));
  const posenc::Learned<T> learned(table.matrix(), {.row_offset = 2, .padding_row = 1});
  learned.add_to(x.rows(), Positions::range(0, 6));
  learned.add_gradient(x.rows(), Positions::range(0, 6), table.matrix());
  posenc::IntegerEncoding({.max_length = 9}).add_to(x.rows(), Positions::range(0, 6));
  posenc::BinaryEncoding({.model_dim = 64, .overflow = posenc::BinaryOverflow::Wrap})
      .add_to(x.rows(), Positions::range(0, 6));
  auto small = warnings::ones<T>(7, 1, 64), large = warnings::ones<T>(21, 1, 64);
  const posenc::GridResizeConfig resize{.source = {3, 2},
                                        .target = {4, 5},
                                        .filter = posenc::ResizeFilter::Bicubic,
                                        .coordinates = posenc::ResizeCoordinates::HalfPixel,
                                        .prefix_tokens = 1};
  posenc::resize_grid(small.matrix(), large.matrix(), resize);
  posenc::resize_grid_adjoint(large.matrix(), small.matrix(), resize);
  using posenc::SinusoidalLayout;
  return static_cast<double>(x.values[2]) + static_cast<double>(table.values[3]) +
         static_cast<double>(small.values[4]) + encode<T>(SinusoidalLayout::Interleaved, 64) +
         encode<T>(SinusoidalLayout::Interleaved, 7) +
         encode<T>(SinusoidalLayout::Concatenated, 64) +
         encode<T>(SinusoidalLayout::ConcatenatedEndInclusive, 30);
}

double use_additive() {
  return encode_all<float>() + encode_all<double>() + encode_all<Eigen::bfloat16>();
}

/// Calls in one function with constants, as in a small program, so that the compiler knows the
/// bounds of all loops.
double use_constants() {
  std::vector<double> x(4 * 64);
  const posenc::Sinusoidal encoding(
      {.model_dim = 64, .layout = posenc::SinusoidalLayout::Interleaved, .base = 10000});
  encoding.add_to(posenc::EmbeddingsView<double>{.data = x.data(), .batch = 1, .seq = 4, .dim = 64},
                  Positions::range(0, 4));
  return x[1];
}
