// SPDX-License-Identifier: MIT
#include <posenc/attention/attention.hpp>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_ATTEND_SAME(, double)

}  // namespace detail
POSENC_END
