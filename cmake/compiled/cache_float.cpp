// SPDX-License-Identifier: MIT
#include <posenc/kv/cached_attention.hpp>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_ATTEND_TO_SAME_CACHE(, float)

}  // namespace detail
POSENC_END
