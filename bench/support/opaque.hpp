// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

namespace bench {

using posenc::Index;

/// A pointer or integer of which the compiler knows nothing; it cannot fold repetitions that depend
/// on it. Not benchmark::DoNotOptimize(), whose operand may be memory or a register: with such a
/// choice g++ changes the value (GCC PR 92597).
template <class T>
T opaque(T value) {
  asm volatile("" : "+r"(value) : : "memory");
  return value;
}

}  // namespace bench
