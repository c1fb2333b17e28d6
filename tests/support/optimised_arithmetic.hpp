// SPDX-License-Identifier: MIT
#pragma once

// Double-double and quad-double numbers of the library, optimised. Tests are compiled without
// optimisation, and those that read many models would spend most of their time here.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O1")
#endif

#include <posenc/core/detail/double_double.hpp>
#include <posenc/core/detail/quad_double.hpp>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
