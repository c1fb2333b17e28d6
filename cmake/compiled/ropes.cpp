// SPDX-License-Identifier: MIT
#include <posenc/rotary/rope.hpp>

#include <Eigen/Core>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_COS_SIN_ROWS(, float)
POSENC_DETAIL_COS_SIN_ROWS(, double)

}  // namespace detail

POSENC_DETAIL_ROPES(, float)
POSENC_DETAIL_ROPES(, double)
POSENC_DETAIL_ROPES(, Eigen::half)
POSENC_DETAIL_ROPES(, Eigen::bfloat16)
POSENC_DETAIL_TABLES(, float)
POSENC_DETAIL_TABLES(, double)
POSENC_DETAIL_TABLES(, Eigen::half)
POSENC_DETAIL_TABLES(, Eigen::bfloat16)

POSENC_END
