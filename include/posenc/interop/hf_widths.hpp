// SPDX-License-Identifier: MIT
// The name of hf_config_options.hpp in 0.2.0, kept until 0.4.0.
#pragma once

#include <posenc/interop/hf_config_options.hpp>
