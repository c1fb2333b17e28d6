// SPDX-License-Identifier: MIT
#pragma once

#include <cstdint>

/// Functions of a translation unit that is compiled for one ISA level. Arguments are only numbers
/// and pointers, because Eigen's objects differ between flags.
struct LevelUnit {
  char tier[16], level[16];  ///< of its build_info
  bool fma;

  /// Rotates x [seq, heads, dim] by Rope, base 10000, at first, first + 1, ...
  void (*rotate_half)(float* x, std::int64_t first, std::int64_t seq, std::int64_t heads,
                      std::int64_t dim);
  void (*rotate_interleaved)(float* x, std::int64_t first, std::int64_t seq, std::int64_t heads,
                             std::int64_t dim);
  void (*rotate_double)(double* x, std::int64_t first, std::int64_t seq, std::int64_t heads,
                        std::int64_t dim);
  /// Rotates the bits of bfloat16 numbers.
  void (*rotate_bfloat16)(std::uint16_t* x, std::int64_t first, std::int64_t seq,
                          std::int64_t heads, std::int64_t dim);
  /// Rotates the bits of IEEE half numbers.
  void (*rotate_float16)(std::uint16_t* x, std::int64_t first, std::int64_t seq, std::int64_t heads,
                         std::int64_t dim);
  /// Adds the interleaved sinusoidal encoding to x [seq, dim].
  void (*add_sinusoidal)(float* x, std::int64_t first, std::int64_t seq, std::int64_t dim);
  /// Adds the symmetric ALiBi of the third of eight heads to tile [count, count].
  void (*add_alibi)(float* tile, const double* positions, std::int64_t count);
  /// Replaces each number by its exp.
  void (*exp)(float* x, std::int64_t count);
  /// Throws posenc::ConfigError.
  void (*fail)();
};

/// Units that are linked into the program.
LevelUnit x86_64_unit();
LevelUnit avx2_without_f16c_unit();
LevelUnit x86_64_v3_unit();
LevelUnit x86_64_v4_unit();
LevelUnit x86_64_v4_forced_avx2_unit();
LevelUnit x86_64_v4_forced_scalar_unit();
