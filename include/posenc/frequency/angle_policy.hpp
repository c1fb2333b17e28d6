// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_STABLE_BEGIN

/// The precision of the angle a = position * inv_freq, of which cos and sin are taken. Angles must
/// not exceed 2^50 radians.
enum class AnglePolicy {
  /// The exact angle, as if computed without rounding. The default.
  ///   Accuracy: float within 0.5 ulp + 4e-16 for |a| <= 2^40, + 1e-15 to 2^50; double within 4e-16
  ///             for |a| <= 2^40, 1e-15 to 2^50. |inv_freq| must be 0 or at least 1e-290
  Exact,
  /// The float32 angle of PyTorch and Hugging Face: position and inv_freq are rounded to float, and
  /// so is their product. cos and sin of the angle are floats, and so is the attention factor that
  /// multiplies them.
  /// Checkpoints were trained with these angles. Their inv_freq is that of
  /// hf_float32_frequencies(rule).
  /// Worst error of cos and sin over the pairs, for base 10000 and 128 channels: 1.4e-4 at position
  /// 4095, 4.2e-3 at 131071, 2.5e-2 at 1048575, 0.27 at 10000019.
  ///   Accuracy: that of Exact in float, of cos and sin of the float angle
  HfFloat32
};

POSENC_STABLE_END
