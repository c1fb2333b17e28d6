// SPDX-License-Identifier: MIT
#include <posenc/interop/attention_options.hpp>
#include <posenc/interop/gguf.hpp>

#include <Eigen/Core>

POSENC_BEGIN

POSENC_DETAIL_ATTENTION_OPTIONS(, float)
POSENC_DETAIL_ATTENTION_OPTIONS(, double)
POSENC_DETAIL_ATTENTION_OPTIONS(, Eigen::half)
POSENC_DETAIL_ATTENTION_OPTIONS(, Eigen::bfloat16)

POSENC_END
