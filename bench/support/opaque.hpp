// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

namespace bench {

using posenc::Index;

/// Returns a pointer or integer whose value is opaque to the compiler, so that it cannot fold
/// repetitions. benchmark::DoNotOptimize() does not serve here: its operand may be memory or a
/// register, and with such a choice g++ changes the value (GCC PR 92597).
template <class T>
T opaque(T value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}

}  // namespace bench
