// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

/// What a translation unit compiled for one ISA level does for the test. Only numbers and pointers
/// cross: Eigen's objects are not the same under different flags.
struct LevelUnit {
  char tier[16], level[16];  ///< of its build_info
  bool fma;

  /// x [seq, heads, dim] <- rotated by Rope, base 10000, at first, first + 1, ...
  void (*rotate_half)(float* x, std::int64_t first, std::int64_t seq, std::int64_t heads,
                      std::int64_t dim);
  void (*rotate_interleaved)(float* x, std::int64_t first, std::int64_t seq, std::int64_t heads,
                             std::int64_t dim);
  void (*rotate_double)(double* x, std::int64_t first, std::int64_t seq, std::int64_t heads,
                        std::int64_t dim);
  /// The same of the bits of bfloat16.
  void (*rotate_bfloat16)(std::uint16_t* x, std::int64_t first, std::int64_t seq,
                          std::int64_t heads, std::int64_t dim);
  /// And of IEEE half.
  void (*rotate_float16)(std::uint16_t* x, std::int64_t first, std::int64_t seq, std::int64_t heads,
                         std::int64_t dim);
  /// x [seq, dim] += sinusoidal, interleaved.
  void (*add_sinusoidal)(float* x, std::int64_t first, std::int64_t seq, std::int64_t dim);
  /// tile [count, count] += ALiBi of the third of eight heads, symmetric.
  void (*add_alibi)(float* tile, const double* positions, std::int64_t count);
  /// exp of each.
  void (*exp)(float* x, std::int64_t count);
  /// Throws posenc::ConfigError.
  void (*fail)();
};

/// One for each of the units that are linked into the program.
LevelUnit x86_64_unit();
LevelUnit avx2_without_f16c_unit();
LevelUnit x86_64_v3_unit();
LevelUnit x86_64_v4_unit();
LevelUnit x86_64_v4_forced_avx2_unit();
LevelUnit x86_64_v4_forced_scalar_unit();
