// SPDX-License-Identifier: MIT
#include <posenc/attention/attention_backward.hpp>

#include <Eigen/Core>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_ATTEND_BACKWARD(, Eigen::bfloat16)

}  // namespace detail
POSENC_END
