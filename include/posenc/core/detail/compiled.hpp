// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

// Instantiations of posenc::compiled. A header that has some defines a macro that declares them
// (EXTERN is `extern`) or instantiates them (EXTERN is empty, in a source of cmake/compiled), and
// declares them if POSENC_COMPILED is 1. Types of Eigen have no declarations in units that include
// Eigen later than posenc, or never: they must be complete.

// Readers of files. With POSENC_COMPILED users see their declarations alone, and the sources of the
// library, whose target defines POSENC_DETAIL_DEFINES_READERS, their definitions.
#if !POSENC_COMPILED
#define POSENC_DETAIL_DEFINES_READERS 1
#define POSENC_DETAIL_READER inline
#else
#define POSENC_DETAIL_READER
#ifndef POSENC_DETAIL_DEFINES_READERS
#define POSENC_DETAIL_DEFINES_READERS 0
#endif
#endif

/// Calls DECLARE(extern, T) for each element type of posenc::compiled that is complete.
#if POSENC_COMPILED && (defined(EIGEN_CORE_H) || defined(EIGEN_CORE_MODULE_H))
#define POSENC_DETAIL_DECLARE_COMPILED(DECLARE) \
  DECLARE(extern, float)                        \
  DECLARE(extern, double)                       \
  DECLARE(extern, Eigen::half)                  \
  DECLARE(extern, Eigen::bfloat16)
#define POSENC_DETAIL_DECLARE_COMPILED_MIXED(DECLARE) \
  DECLARE(extern, float, Eigen::half)                 \
  DECLARE(extern, float, Eigen::bfloat16)
#elif POSENC_COMPILED
#define POSENC_DETAIL_DECLARE_COMPILED(DECLARE) \
  DECLARE(extern, float)                        \
  DECLARE(extern, double)
#define POSENC_DETAIL_DECLARE_COMPILED_MIXED(DECLARE)
#else
#define POSENC_DETAIL_DECLARE_COMPILED(DECLARE)
#define POSENC_DETAIL_DECLARE_COMPILED_MIXED(DECLARE)
#endif
