// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_BEGIN

/// Tags of the instruction sets for which kernels exist. allowed<Tier> is true if the flags of this
/// translation unit permit the tier. Several can be allowed, so that one binary can test and time
/// them. `registers` is the number of vector registers, in which kernels hold their accumulators.
namespace tier {
/// Plain C++, one lane per pack: the tier of all other processors.
struct Scalar {
  static constexpr const char* name = "scalar";  ///< as in POSENC_TIER
  static constexpr int registers = 16;           ///< number of vector registers
};
/// SSE2, which every x86-64 processor has.
struct Sse2 {
  static constexpr const char* name = "sse2";  ///< as in POSENC_TIER
  static constexpr int registers = 16;         ///< number of vector registers
};
/// AVX2 and FMA. Conversions of Half are slower without F16C.
struct Avx2 {
  static constexpr const char* name = "avx2";  ///< as in POSENC_TIER
  static constexpr int registers = 16;         ///< number of vector registers
};
/// AVX-512 F, BW, DQ and VL.
struct Avx512 {
  static constexpr const char* name = "avx512";  ///< as in POSENC_TIER
  static constexpr int registers = 32;           ///< number of vector registers
};
/// Advanced SIMD (NEON) of aarch64.
struct Neon {
  static constexpr const char* name = "neon";  ///< as in POSENC_TIER
  static constexpr int registers = 32;         ///< number of vector registers
};

/// A list of tiers, from which functions deduce a pack of types.
template <class... Tiers>
struct List {};
/// All tiers, also those that the flags do not allow.
using All = List<Scalar, Sse2, Avx2, Avx512, Neon>;

/// True if the flags of this translation unit permit Tier.
template <class Tier>
inline constexpr bool allowed = false;
template <>
inline constexpr bool allowed<Scalar> = true;
template <>
inline constexpr bool allowed<Sse2> = POSENC_HAS_SSE2 != 0;
template <>
inline constexpr bool allowed<Avx2> = POSENC_HAS_AVX2 != 0;
template <>
inline constexpr bool allowed<Avx512> = POSENC_HAS_AVX512 != 0;
template <>
inline constexpr bool allowed<Neon> = POSENC_HAS_NEON != 0;

/// The tier that processes a remainder that is too short for the vectors of Tier.
template <class Tier>
struct Narrower {
  /// The narrower tier.
  using Type = Scalar;
};
template <>
struct Narrower<Avx512> {
  using Type = Avx2;
};
template <>
struct Narrower<Avx2> {
  using Type = Sse2;
};

// NOLINTBEGIN(readability-identifier-naming)
/// Tiers under the names that POSENC_TIER uses.
namespace named {
using scalar = Scalar;
using sse2 = Sse2;
using avx2 = Avx2;
using avx512 = Avx512;
using neon = Neon;
}  // namespace named
// NOLINTEND(readability-identifier-naming)

/// The tier of all public calls.
using Best = named::POSENC_TIER;
static_assert(allowed<Best>,
              "posenc: POSENC_TIER names a tier that the compiler's flags do not allow");

}  // namespace tier
POSENC_END
