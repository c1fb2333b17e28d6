// SPDX-License-Identifier: MIT
#include <posenc/interop/hf_config.hpp>
