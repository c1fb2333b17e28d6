// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_BEGIN

/// Tags of the instruction sets for which kernels exist. allowed<Tier> is true if the flags of this
/// translation unit permit the tier. Several can be allowed, so that one binary can test and time
/// them. `registers` is the number of vector registers, in which kernels hold their accumulators.
namespace tier {
struct Scalar {
  static constexpr const char* name = "scalar";
  static constexpr int registers = 16;
};
struct Sse2 {
  static constexpr const char* name = "sse2";
  static constexpr int registers = 16;
};
struct Avx2 {  ///< AVX2 and FMA; conversions of Half are slower without F16C
  static constexpr const char* name = "avx2";
  static constexpr int registers = 16;
};
struct Avx512 {  ///< AVX-512 F, BW, DQ and VL
  static constexpr const char* name = "avx512";
  static constexpr int registers = 32;
};
struct Neon {  ///< aarch64
  static constexpr const char* name = "neon";
  static constexpr int registers = 32;
};

template <class... Tiers>
struct List {};
using All = List<Scalar, Sse2, Avx2, Avx512, Neon>;

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

// Tiers under the names that POSENC_TIER uses.
// NOLINTBEGIN(readability-identifier-naming)
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
