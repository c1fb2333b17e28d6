// SPDX-License-Identifier: MIT
#include <posenc/attention/attention.hpp>

#include <Eigen/Core>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_ATTEND_SAME(, Eigen::half)
POSENC_DETAIL_ATTEND(, float, Eigen::half)

}  // namespace detail
POSENC_END
