// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_UNDEFINED_OPERANDS_BEGIN
#include <Eigen/Core>
POSENC_UNDEFINED_OPERANDS_END

#include <ostream>
#include <string>

POSENC_BEGIN

/// The settings with which a translation unit was compiled. Print them first in every benchmark and
/// report.
struct BuildInfo {
  std::string version;   ///< version of posenc, "0.1.0"
  std::string level;     ///< instruction sets that the compiler may emit: "sse2", "avx512", ...
  std::string tier;      ///< POSENC_TIER: the kernels that posenc runs
  std::string missing;   ///< instruction sets that the flags lack for wider kernels: "FMA (avx2)"
  std::string tag;       ///< name of the inline namespace; object files of one tag share functions
  std::string compiler;  ///< name and version
  std::string eigen;     ///< version of Eigen
  bool fma = false;      ///< fused multiply-add in hardware, which bit-exact contracts require
  bool bfloat16_products = false;  ///< POSENC_BFLOAT16_PRODUCTS
  bool checked = false;            ///< POSENC_CHECKED
  bool fast_math = false;          ///< POSENC_FAST_MATH: no guarantees of accuracy and infinities
};

namespace detail {
#define POSENC_DETAIL_TEXT(x) POSENC_DETAIL_TEXT_(x)
#define POSENC_DETAIL_TEXT_(x) #x

inline std::string compiler_name() {
#if defined(__clang__)
  return "clang " POSENC_DETAIL_TEXT(__clang_major__) "." POSENC_DETAIL_TEXT(
      __clang_minor__) "." POSENC_DETAIL_TEXT(__clang_patchlevel__);
#elif defined(__GNUC__)
  return "g++ " __VERSION__;
#elif defined(_MSC_VER)
  return "msvc " POSENC_DETAIL_TEXT(_MSC_FULL_VER);
#else
  return "unknown compiler";
#endif
}

inline std::string eigen_version() {
// Eigen 5 defines EIGEN_WORLD_VERSION as 3 and its major version as EIGEN_MAJOR_VERSION.
#if EIGEN_MAJOR_VERSION >= 5
  return POSENC_DETAIL_TEXT(EIGEN_MAJOR_VERSION) "." POSENC_DETAIL_TEXT(EIGEN_MINOR_VERSION) "."  //
      POSENC_DETAIL_TEXT(EIGEN_PATCH_VERSION);
#else
  return POSENC_DETAIL_TEXT(EIGEN_WORLD_VERSION) "." POSENC_DETAIL_TEXT(EIGEN_MAJOR_VERSION) "."  //
      POSENC_DETAIL_TEXT(EIGEN_MINOR_VERSION);
#endif
}
}  // namespace detail

/// Returns the settings of the calling translation unit.
inline BuildInfo build_info() {
  BuildInfo info;
  info.version =
      POSENC_DETAIL_TEXT(POSENC_VERSION_MAJOR) "." POSENC_DETAIL_TEXT(POSENC_VERSION_MINOR) "."  //
      POSENC_DETAIL_TEXT(POSENC_VERSION_PATCH) POSENC_VERSION_SUFFIX;
  info.level = POSENC_DETAIL_TEXT(POSENC_LEVEL);
  info.tier = POSENC_DETAIL_TEXT(POSENC_TIER);
  info.missing = POSENC_MISSING;
  info.tag = POSENC_DETAIL_TEXT(POSENC_ABI_TAG);
  info.compiler = detail::compiler_name();
  info.eigen = detail::eigen_version();
  info.fma = POSENC_HAS_FMA != 0;
  info.bfloat16_products = POSENC_BFLOAT16_PRODUCTS != 0;
  info.checked = POSENC_CHECKED != 0;
  info.fast_math = POSENC_FAST_MATH != 0;
  return info;
}

/// Writes one line: "posenc 0.1.0, tier scalar, level avx512, fma, Eigen 3.4.0, g++ 12.2.0".
inline std::ostream& operator<<(std::ostream& out, const BuildInfo& info) {
  out << "posenc " << info.version << ", tier " << info.tier;
  if (!info.missing.empty()) out << ", because of missing " << info.missing;
  out << ", level " << info.level << (info.fma ? ", fma" : ", no fma") << ", Eigen " << info.eigen
      << ", " << info.compiler;
  if (info.bfloat16_products) out << ", bfloat16 products";
  if (info.checked) out << ", checked";
  if (info.fast_math) out << ", fast-math";
  return out;
}

POSENC_END
