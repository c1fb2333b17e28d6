// SPDX-License-Identifier: MIT
#include <posenc/attention/attention.hpp>

#include <Eigen/Core>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_ATTEND_SAME(, Eigen::bfloat16)
POSENC_DETAIL_ATTEND(, float, Eigen::bfloat16)

}  // namespace detail
POSENC_END
