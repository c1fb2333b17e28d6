// SPDX-License-Identifier: MIT
#include <posenc/rotary/rope.hpp>

#include <Eigen/Core>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_ROTATION_KERNELS(, Interleaved, float, float)
POSENC_DETAIL_ROTATION_KERNELS(, Interleaved, double, double)
POSENC_DETAIL_ROTATION_KERNELS(, Interleaved, Eigen::half, Eigen::half)
POSENC_DETAIL_ROTATION_KERNELS(, Interleaved, Eigen::bfloat16, Eigen::bfloat16)
POSENC_DETAIL_ROTATION_KERNELS(, Interleaved, float, Eigen::half)
POSENC_DETAIL_ROTATION_KERNELS(, Interleaved, Eigen::half, float)
POSENC_DETAIL_ROTATION_KERNELS(, Interleaved, float, Eigen::bfloat16)
POSENC_DETAIL_ROTATION_KERNELS(, Interleaved, Eigen::bfloat16, float)

}  // namespace detail
POSENC_END
