// SPDX-License-Identifier: MIT
#include <posenc/rotary/rope.hpp>

#include <Eigen/Core>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_ROTATION_KERNELS(, HalfRotate, float, float)
POSENC_DETAIL_ROTATION_KERNELS(, HalfRotate, double, double)
POSENC_DETAIL_ROTATION_KERNELS(, HalfRotate, Eigen::half, Eigen::half)
POSENC_DETAIL_ROTATION_KERNELS(, HalfRotate, Eigen::bfloat16, Eigen::bfloat16)
POSENC_DETAIL_ROTATION_KERNELS(, HalfRotate, float, Eigen::half)
POSENC_DETAIL_ROTATION_KERNELS(, HalfRotate, Eigen::half, float)
POSENC_DETAIL_ROTATION_KERNELS(, HalfRotate, float, Eigen::bfloat16)
POSENC_DETAIL_ROTATION_KERNELS(, HalfRotate, Eigen::bfloat16, float)

}  // namespace detail
POSENC_END
