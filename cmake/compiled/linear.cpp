// SPDX-License-Identifier: MIT
#include <posenc/nn/linear.hpp>

POSENC_BEGIN
namespace detail {

POSENC_DETAIL_LINEARS(, float)
POSENC_DETAIL_LINEARS(, double)

}  // namespace detail
POSENC_END
