// SPDX-License-Identifier: MIT
#include <posenc/attention/attention_backward.hpp>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_ATTEND_BACKWARD(, float)

}  // namespace detail
POSENC_END
