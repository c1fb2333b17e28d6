// SPDX-License-Identifier: MIT
// The name of gguf_options.hpp in 0.2.0, kept until 0.4.0. The rules are in detail/gguf_rules.hpp.
#pragma once

#include <posenc/interop/gguf_options.hpp>
