// SPDX-License-Identifier: MIT
#pragma once

#include "rotary/compiled_kernels.hpp"
#include <posenc/rotary/pairing.hpp>
#include <posenc/rotary/rope.hpp>
#include <posenc/rotary/rotary_calls.hpp>
#include <posenc/rotary/rotation_table.hpp>

#include <Eigen/Core>

#include <array>

// The calls of Rope and RotationTable with one tensor on the calling thread, which compiled_ropes.cpp instantiates for all
// tests.

/// Declares (with `extern`) or instantiates the calls with a tensor of T.
#define TEST_ROPE(EXTERN, PAIRING, T)                                                            \
  EXTERN template void Rope<PAIRING>::apply(detail::RotaryCall, const detail::CallingThread&,    \
                                            const std::array<detail::RotationOperand<T, T>, 1>&, \
                                            const Positions&) const;                             \
  EXTERN template void RotationTable<PAIRING, Compute<T>>::apply(                                \
      detail::RotaryCall, const detail::CallingThread&,                                          \
      const std::array<detail::RotationOperand<T, T>, 1>&) const;

#define TEST_ROPES(EXTERN, PAIRING)       \
  TEST_ROPE(EXTERN, PAIRING, float)       \
  TEST_ROPE(EXTERN, PAIRING, double)      \
  TEST_ROPE(EXTERN, PAIRING, Eigen::half) \
  TEST_ROPE(EXTERN, PAIRING, Eigen::bfloat16)

POSENC_BEGIN

TEST_ROPES(extern, Interleaved)
TEST_ROPES(extern, HalfRotate)

POSENC_END
