// SPDX-License-Identifier: MIT
#pragma once

// Everything that needs no more than Eigen. Includes only.
#include <posenc/additive/binary.hpp>
#include <posenc/additive/grid_resize.hpp>
#include <posenc/additive/integer.hpp>
#include <posenc/additive/learned.hpp>
#include <posenc/additive/sinusoidal.hpp>
#include <posenc/additive/sinusoidal_2d.hpp>
#include <posenc/attention/attention.hpp>
#include <posenc/attention/multi_head_attention.hpp>
#include <posenc/bias/alibi.hpp>
#include <posenc/concepts.hpp>
#include <posenc/core/build_info.hpp>
#include <posenc/core/error.hpp>
#include <posenc/core/version.hpp>
#include <posenc/frequency/frequencies.hpp>
#include <posenc/frequency/linear.hpp>
#include <posenc/frequency/ntk.hpp>
#include <posenc/frequency/oscillator.hpp>
#include <posenc/frequency/unscaled.hpp>
#include <posenc/frequency/yarn.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/rotation_table.hpp>
#include <posenc/tensor/adapt.hpp>
#include <posenc/tensor/eigen.hpp>
#include <posenc/tensor/positions.hpp>
#include <posenc/tensor/scalar.hpp>
#include <posenc/tensor/view.hpp>
