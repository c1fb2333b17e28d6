// SPDX-License-Identifier: MIT
#include <posenc/kv/cached_attention.hpp>

#include <Eigen/Core>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_ATTEND_TO_SAME_CACHE(, Eigen::bfloat16)
POSENC_DETAIL_ATTEND_TO_CACHE(, float, Eigen::bfloat16)

}  // namespace detail
POSENC_END
