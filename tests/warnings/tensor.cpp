// SPDX-License-Identifier: MIT
// tensor/: positions, views of Eigen's types, grids.
#include <posenc/tensor/adapt.hpp>
#include <posenc/tensor/device.hpp>
#include <posenc/tensor/eigen.hpp>
#include <posenc/tensor/extent.hpp>
#include <posenc/tensor/grid_positions.hpp>
#include <posenc/tensor/position_kind.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>
#include <posenc/without_eigen.hpp>

#include <Eigen/Core>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

using posenc::Index;
using posenc::Positions;

template <posenc::Scalar T>
T read_views() {
  Eigen::Tensor<T, 4, Eigen::RowMajor> tensor(2, 3, 4, 8);
  Eigen::Tensor<T, 4> mirrored(8, 4, 3, 2);
  Eigen::TensorFixedSize<T, Eigen::Sizes<3, 8>, Eigen::RowMajor> fixed;
  Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> matrix(6, 8);
  matrix.setZero(), tensor.setZero(), mirrored.setZero(), fixed.setZero();
  const auto heads = posenc::slice_heads(posenc::slice_seq(posenc::bshd(tensor), 1, 2), 1, 2);
  const auto of_matrix = posenc::split_heads(posenc::sd(matrix), 2);
  const auto features = posenc::slice_features(posenc::bshd(tensor), 2, 4);
  return heads.row(1, 1, 1)[7] + posenc::dhsb(mirrored).row(1, 2, 3)[7] +
         posenc::sd(fixed).row(0, 2)[7] + of_matrix.row(0, 5, 1)[3] + features.row(1, 2, 3)[3];
}

float read_own_buffer(const std::vector<float>& memory, std::size_t tokens, unsigned heads) {
  const posenc::HeadsView<const float> view{.data = memory.data(),
                                            .batch = 1,
                                            .seq = tokens,
                                            .heads = heads,
                                            .dim = memory.size() / tokens / heads,
                                            .head_stride = memory.size() / tokens / heads};
  const posenc::Extent none;
  return none.is_omitted() ? *view.row(0, view.seq - 1, 0) : 0.0F;
}

double sum_of(const std::vector<Positions>& all) {
  double sum = 0;
  for (const Positions& positions : all) {
    for (Index s = 0; s < positions.count(); ++s) sum += positions.at(0, s);
    sum += positions.max_magnitude();
  }
  return sum;
}

double use_tensor() {
  const std::array<std::int32_t, 4> ids{4, 2, 0, 1};
  const std::array<bool, 8> keep{true, true, false, true, true, true, true, false};
  return static_cast<double>(read_views<float>() + static_cast<float>(read_views<double>()) +
                             static_cast<float>(read_views<Eigen::bfloat16>()) +
                             read_own_buffer(std::vector<float>(24, 1.0F), 3, 2)) +
         sum_of({Positions::range(3, 5), Positions::starts({1, 2}, 4), Positions::ids({4, 2, 0}),
                 Positions::ids(2, {4, 2, 0, 1}), Positions::view(ids),
                 Positions::view(ids).owned(), Positions::real({0.5, -1}),
                 Positions::packed({0, 2, 5}, {7, 9}), Positions::grid(2, 3),
                 Positions::from_padding_mask({keep.data(), 2, 4}),
                 Positions::axes({Positions::range(0, 3), Positions::range(4, 3)}),
                 Positions::concatenate({Positions::range(0, 3), Positions::range(0, 2)}),
                 posenc::merge_block_grid({.frames = 1, .rows = 4, .cols = 6, .merge = 2}),
                 posenc::xy_grid(2, 3), posenc::pixel_grid({3, 2}),
                 posenc::with_zero_axis(posenc::xy_grid(2, 3))});
}
