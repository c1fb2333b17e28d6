// SPDX-License-Identifier: MIT
#pragma once

#include "support/compare.hpp"
#include "support/random.hpp"
#include <posenc/core/config.hpp>
#include <posenc/tensor/eigen.hpp>
#include <posenc/tensor/positions.hpp>

#include <Eigen/Core>
#include <unsupported/Eigen/CXX11/Tensor>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

// Helpers of all laws.
namespace laws {

using posenc::Index;
using posenc::Positions;

template <class T>
using Embeddings = Eigen::Tensor<T, 3, Eigen::RowMajor>;  // [B, S, D]
template <class T>
using Heads = Eigen::Tensor<T, 4, Eigen::RowMajor>;  // [B, S, H, D]

/// Returns the distance from 1 to the next T.
template <class T>
double epsilon() {
  double step = 1;
  while (static_cast<double>(static_cast<T>(1 + step / 2)) != 1) step /= 2;
  return step;
}

template <class Tensor>
std::span<typename Tensor::Scalar> elements(Tensor& x) {
  return {x.data(), static_cast<std::size_t>(x.size())};
}

template <class Tensor>
Tensor random_like(Tensor shape, std::uint64_t seed) {
  support::Random(seed).fill_normal(elements(shape));
  return shape;
}

template <class T>
bool same_bits(const T* a, const T* b, Index count) {
  return std::memcmp(a, b, static_cast<std::size_t>(count) * sizeof(T)) == 0;
}

/// Returns the sum of a[i] * b[i], in double.
template <class A, class B>
double dot(const A* a, const B* b, Index count) {
  double sum = 0;
  for (Index i = 0; i < count; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

template <class T>
double norm(const T* a, Index count) {
  return std::sqrt(dot(a, a, count));
}

/// Returns the positions of token s of batch row b alone, on as many axes.
inline Positions alone(const Positions& positions, Index b, Index s) {
  std::vector<Positions> axes;
  for (Index axis = 0; axis < positions.axis_count(); ++axis) {
    axes.push_back(Positions::real({positions.at(b, s, axis)}));
  }
  return axes.size() == 1 ? axes[0] : Positions::axes(axes);
}

}  // namespace laws
