// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>
#include <posenc/frequency/divisors.hpp>
#include <posenc/frequency/dynamic_ntk.hpp>
#include <posenc/frequency/dynamic_yarn.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/llama3.hpp>
#include <posenc/frequency/longrope.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/ntk_by_parts.hpp>
#include <posenc/frequency/proportional.hpp>
#include <posenc/frequency/two_ramp_ntk.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/vllm_ntk.hpp>
#include <posenc/frequency/yarn.hpp>

#include <variant>

// The only list of all frequency rules. Readers, model settings, tools and tests iterate over it.
POSENC_BEGIN

/// Any of the library's rules; monostate if none is given.
using RotaryRule =
    std::variant<std::monostate, Unscaled, LinearScaling, NtkScaling, AlphaNtkScaling,
                 DynamicNtkScaling, VllmNtkScaling, VllmMixedNtkScaling, NtkByPartsScaling,
                 TwoRampNtkScaling, YarnScaling, DynamicYarnScaling, LongRopeScaling, Llama3Scaling,
                 ProportionalScaling, DivisorScaling>;

POSENC_END
