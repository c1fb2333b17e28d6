// SPDX-License-Identifier: MIT
#pragma once

// Umbrella header: all headers except interop/, whose headers belong to single models. It contains
// includes only.
#include <posenc/without_eigen.hpp>

#if !__has_include(<Eigen/Core>)
#error "posenc/posenc.hpp needs Eigen 3.4 or 5; without Eigen, include <posenc/without_eigen.hpp>"
#endif

#include <posenc/core/build_info.hpp>
#include <posenc/tensor/eigen.hpp>
