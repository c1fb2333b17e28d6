// SPDX-License-Identifier: MIT
// Rotation of the quickstart, on Eigen::Tensor and on pointers.
#include <posenc/posenc.hpp>

float rotated(posenc::HeadsView<float> x) {
  const posenc::Rope<posenc::HalfRotate> rope(posenc::Unscaled{.rotary_dim = 64, .base = 10000});
  rope.rotate(x, posenc::Positions::range(3, 1));
#if !defined(_LIBCPP_HAS_NO_THREADS) || defined(_LIBCPP_THREAD)
  Eigen::Tensor<float, 4, Eigen::RowMajor> q(1, 1, 1, 64);
  q.setConstant(0.1F);
  rope.rotate(posenc::bshd(q), posenc::Positions::range(5, 1));
  return q(0, 0, 0, 0) + x.data[0];
#else
  return x.data[0];
#endif
}
