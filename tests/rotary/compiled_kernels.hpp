// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/frequency/detail/oscillator.hpp>
#include <posenc/rotary/detail/rotation_kernels.hpp>
#include <posenc/rotary/pairing.hpp>
#include <posenc/tensor/scalar.hpp>

#include <Eigen/Core>

// The kernels of rotations and angles, which compiled_kernels_*.cpp instantiate for all tests. Without this header each
// source would compile them again, which takes most of its time.

/// Declares (with `extern`) or instantiates the kernels that rotate In and store Out.
#define TEST_ROTATION_KERNELS(EXTERN, PAIRING, IN, OUT)                                            \
  EXTERN template BlockKernel<IN, OUT> block_kernel<PAIRING, IN, tier::Best, OUT>(Index) noexcept; \
  EXTERN template TokenKernel<IN, OUT> token_kernel<PAIRING, IN, tier::Best, OUT>(Index) noexcept;

#define TEST_ROTATION_KERNELS_OF(EXTERN, PAIRING)                          \
  TEST_ROTATION_KERNELS(EXTERN, PAIRING, float, float)                     \
  TEST_ROTATION_KERNELS(EXTERN, PAIRING, double, double)                   \
  TEST_ROTATION_KERNELS(EXTERN, PAIRING, Eigen::half, Eigen::half)         \
  TEST_ROTATION_KERNELS(EXTERN, PAIRING, Eigen::bfloat16, Eigen::bfloat16) \
  TEST_ROTATION_KERNELS(EXTERN, PAIRING, float, Eigen::half)               \
  TEST_ROTATION_KERNELS(EXTERN, PAIRING, float, Eigen::bfloat16)           \
  TEST_ROTATION_KERNELS(EXTERN, PAIRING, Eigen::bfloat16, float)           \
  TEST_ROTATION_KERNELS(EXTERN, PAIRING, Eigen::half, Eigen::bfloat16)

/// Declares (with `extern`) or instantiates the rows of cos and sin.
#define TEST_COS_SIN_ROWS(EXTERN, T)                                                             \
  EXTERN template void Oscillator::cos_sin_row<tier::Best>(double, Index, Index, double, T*, T*) \
      const noexcept;                                                                            \
  EXTERN template void Oscillator::cos_sin_row<tier::Best>(const double*, Index, Index, double,  \
                                                           T*, T*) const noexcept;

POSENC_BEGIN
namespace detail {

TEST_ROTATION_KERNELS_OF(extern, Interleaved)
TEST_ROTATION_KERNELS_OF(extern, HalfRotate)
TEST_COS_SIN_ROWS(extern, float)
TEST_COS_SIN_ROWS(extern, double)

}  // namespace detail
POSENC_END
