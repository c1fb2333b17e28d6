// SPDX-License-Identifier: MIT
// Precompiled header of all programs here.
#include <posenc/posenc.hpp>
#include <posenc/tensor/eigen.hpp>

#include <array>
#include <span>
#include <vector>

using posenc::Positions;
template <class T, int Rank>
using Row = Eigen::Tensor<T, Rank, Eigen::RowMajor>;
template <class T, int Rank>
using Column = Eigen::Tensor<T, Rank>;
using RowMatrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline const posenc::Unscaled rule{.rotary_dim = 8, .base = 10000};
inline const auto positions = Positions::range(0, 3);
