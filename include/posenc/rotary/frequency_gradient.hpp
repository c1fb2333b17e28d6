// SPDX-License-Identifier: MIT
#pragma once

// Gradients of learned frequencies. accumulate_frequency_gradient() is declared in the header of
// each encoding that has such frequencies; this header includes all of them.
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/rope.hpp>
