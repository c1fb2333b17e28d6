// SPDX-License-Identifier: MIT
#pragma once

// Gradients of frequencies that are learned: accumulate_frequency_gradient() stands beside each encoding that has
// them, where whoever has the encoding finds it.
#include <posenc/rotary/chatglm_rope.hpp>
#include <posenc/rotary/mixed_rope.hpp>
#include <posenc/rotary/rope.hpp>
