// SPDX-License-Identifier: MIT
#pragma once

// POSENC_INSTRUCTION_SETS: the instruction sets that the compiler may emit in this translation
// unit, as a string of hexadecimal digits. It is part of every mangled name, so it is short. Each
// digit encodes which of four macros are defined as 1, the first macro in the highest bit. Left
// out are instructions that no compiler emits on its own: operating-system, random-number and
// cache instructions. Instruction sets for which compilers define no macro cannot be told apart.

#define POSENC_DETAIL_EXPAND(x) x
// A defined macro has become 1 when it is pasted, and shifts the list of digits by its weight.
// Every file expands these macros for its namespace, so the number of expansion steps is kept
// small.
#define POSENC_DETAIL_MOVE_8_1 , , , , , , , ,
#define POSENC_DETAIL_MOVE_4_1 , , , ,
#define POSENC_DETAIL_MOVE_2_1 , ,
#define POSENC_DETAIL_MOVE_1_1 ,
#define POSENC_DETAIL_16TH(p0, p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15, \
                           digit, ...)                                                           \
  digit
#define POSENC_DETAIL_DIGIT(p, q, r, s) POSENC_DETAIL_DIGIT_(p, q, r, s)
#define POSENC_DETAIL_DIGIT_(p, q, r, s)                                                           \
  POSENC_DETAIL_DIGIT__(POSENC_DETAIL_MOVE_8_##p POSENC_DETAIL_MOVE_4_##q POSENC_DETAIL_MOVE_2_##r \
                            POSENC_DETAIL_MOVE_1_##s,                                              \
                        f, e, d, c, b, a, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0, end)
#define POSENC_DETAIL_DIGIT__(...) POSENC_DETAIL_EXPAND(POSENC_DETAIL_16TH(__VA_ARGS__))
#define POSENC_DETAIL_WORD(a, b, c, d, e, f) POSENC_DETAIL_WORD_(a, b, c, d, e, f)
#define POSENC_DETAIL_WORD_(a, b, c, d, e, f) a##b##c##d##e##f

#if defined(__x86_64__) || defined(__i386__) || defined(_M_X64) || defined(_M_IX86)

// Macros whose names differ between compilers.
#if defined(__AMX_TILE__) || defined(__AMXTILE__)
#define POSENC_DETAIL_AMX_TILE 1
#endif
#if defined(__AMX_INT8__) || defined(__AMXINT8__)
#define POSENC_DETAIL_AMX_INT8 1
#endif
#if defined(__AMX_BF16__) || defined(__AMXBF16__)
#define POSENC_DETAIL_AMX_BF16 1
#endif
#if defined(__AMX_FP16__) || defined(__AMXFP16__)
#define POSENC_DETAIL_AMX_FP16 1
#endif
#if defined(__AVX10_1__) || defined(__AVX10_1_256__)
#define POSENC_DETAIL_AVX10_1 1
#endif
#if defined(__AVX10_2__) || defined(__AVX10_2_256__)
#define POSENC_DETAIL_AVX10_2 1
#endif
// -mfpmath=387 rounds differently, and g++ shows it only by leaving __SSE2_MATH__ undefined.
#if defined(__SSE2__) && defined(__GNUC__) && !defined(__SSE2_MATH__)
#define POSENC_DETAIL_X87_MATH 1
#endif

#define POSENC_DETAIL_SSE_SETS                                                                     \
  POSENC_DETAIL_WORD(POSENC_DETAIL_DIGIT(__MMX__, __SSE__, __SSE2__, __SSE3__),                    \
                     POSENC_DETAIL_DIGIT(__SSSE3__, __SSE4A__, __SSE4_1__, __SSE4_2__),            \
                     POSENC_DETAIL_DIGIT(__BMI__, __BMI2__, __LZCNT__, __POPCNT__),                \
                     POSENC_DETAIL_DIGIT(__MOVBE__, __ADX__, __CRC32__, __LAHF_SAHF__),            \
                     POSENC_DETAIL_DIGIT(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16, __PRFCHW__, __RTM__, \
                                         __PREFETCHWT1__),                                         \
                     POSENC_DETAIL_DIGIT(__3dNOW__, __3dNOW_A__, __TBM__, POSENC_DETAIL_X87_MATH))
#define POSENC_DETAIL_AVX_SETS                                                            \
  POSENC_DETAIL_WORD(                                                                     \
      POSENC_DETAIL_DIGIT(__AVX__, __AVX2__, __F16C__, __FMA__),                          \
      POSENC_DETAIL_DIGIT(__FMA4__, __XOP__, __AVXVNNI__, __AVXIFMA__),                   \
      POSENC_DETAIL_DIGIT(__AES__, __PCLMUL__, __VAES__, __VPCLMULQDQ__),                 \
      POSENC_DETAIL_DIGIT(__SHA__, __SHA512__, __SM3__, __SM4__),                         \
      POSENC_DETAIL_DIGIT(__GFNI__, __AVXNECONVERT__, __AVXVNNIINT8__, __AVXVNNIINT16__), \
      POSENC_DETAIL_DIGIT(__CMPCCXADD__, __RAOINT__, __APX_F__, __MOVRS__))
#define POSENC_DETAIL_AVX512_SETS                                                                 \
  POSENC_DETAIL_WORD(                                                                             \
      POSENC_DETAIL_DIGIT(__AVX512F__, __AVX512BW__, __AVX512DQ__, __AVX512VL__),                 \
      POSENC_DETAIL_DIGIT(__AVX512CD__, __AVX512ER__, __AVX512PF__, __AVX512IFMA__),              \
      POSENC_DETAIL_DIGIT(__AVX512VBMI__, __AVX512VBMI2__, __AVX512VNNI__, __AVX512BITALG__),     \
      POSENC_DETAIL_DIGIT(__AVX512VPOPCNTDQ__, __AVX512VP2INTERSECT__, __AVX512BF16__,            \
                          __AVX512FP16__),                                                        \
      POSENC_DETAIL_DIGIT(__AVX5124FMAPS__, __AVX5124VNNIW__, POSENC_DETAIL_AVX10_1,              \
                          POSENC_DETAIL_AVX10_2),                                                 \
      POSENC_DETAIL_DIGIT(POSENC_DETAIL_AMX_TILE, POSENC_DETAIL_AMX_INT8, POSENC_DETAIL_AMX_BF16, \
                          POSENC_DETAIL_AMX_FP16))
#define POSENC_INSTRUCTION_SETS                                                                    \
  POSENC_DETAIL_WORD(x, POSENC_DETAIL_SSE_SETS, POSENC_DETAIL_AVX_SETS, POSENC_DETAIL_AVX512_SETS, \
                     , )

#elif defined(__aarch64__) || defined(__arm__) || defined(_M_ARM64) || defined(_M_ARM)

// Code compiled for one SVE vector length does not run with another one.
#if defined(__ARM_FEATURE_SVE_BITS) && __ARM_FEATURE_SVE_BITS
#define POSENC_DETAIL_SVE_BITS __ARM_FEATURE_SVE_BITS
#else
#define POSENC_DETAIL_SVE_BITS
#endif
#if defined(__ARM_ARCH)
#define POSENC_DETAIL_ARM_ARCH __ARM_ARCH
#else
#define POSENC_DETAIL_ARM_ARCH
#endif

#define POSENC_DETAIL_ARM_SETS                                                                    \
  POSENC_DETAIL_WORD(POSENC_DETAIL_DIGIT(__ARM_NEON, __ARM_FEATURE_FMA, __ARM_FEATURE_CRC32,      \
                                         __ARM_FEATURE_ATOMICS),                                  \
                     POSENC_DETAIL_DIGIT(__ARM_FEATURE_QRDMX, __ARM_FEATURE_DOTPROD,              \
                                         __ARM_FEATURE_COMPLEX, __ARM_FEATURE_JCVT),              \
                     POSENC_DETAIL_DIGIT(__ARM_FEATURE_FP16_SCALAR_ARITHMETIC,                    \
                                         __ARM_FEATURE_FP16_VECTOR_ARITHMETIC,                    \
                                         __ARM_FEATURE_FP16_FML, __ARM_FEATURE_FRINT),            \
                     POSENC_DETAIL_DIGIT(__ARM_FEATURE_BF16_SCALAR_ARITHMETIC,                    \
                                         __ARM_FEATURE_BF16_VECTOR_ARITHMETIC,                    \
                                         __ARM_FEATURE_MATMUL_INT8, __ARM_FEATURE_CSSC),          \
                     POSENC_DETAIL_DIGIT(__ARM_FEATURE_AES, __ARM_FEATURE_SHA2,                   \
                                         __ARM_FEATURE_SHA3, __ARM_FEATURE_SHA512),               \
                     POSENC_DETAIL_DIGIT(__ARM_FEATURE_SM3, __ARM_FEATURE_SM4, __ARM_FEATURE_RNG, \
                                         __ARM_FEATURE_TME))
#define POSENC_DETAIL_SVE_SETS                                                                   \
  POSENC_DETAIL_WORD(                                                                            \
      POSENC_DETAIL_DIGIT(__ARM_FEATURE_SVE, __ARM_FEATURE_SVE2, __ARM_FEATURE_SVE_BF16,         \
                          __ARM_FEATURE_SVE_MATMUL_INT8),                                        \
      POSENC_DETAIL_DIGIT(__ARM_FEATURE_SVE_MATMUL_FP32, __ARM_FEATURE_SVE_MATMUL_FP64,          \
                          __ARM_FEATURE_SVE2_BITPERM, __ARM_FEATURE_SVE2_AES),                   \
      POSENC_DETAIL_DIGIT(__ARM_FEATURE_SVE2_SHA3, __ARM_FEATURE_SVE2_SM4, __ARM_FEATURE_SVE2p1, \
                          __ARM_FEATURE_RCPC),                                                   \
      POSENC_DETAIL_DIGIT(__ARM_FEATURE_SME, __ARM_FEATURE_SME2, __ARM_FEATURE_MOPS,             \
                          __ARM_FEATURE_LS64),                                                   \
      POSENC_DETAIL_DIGIT(__ARM_FEATURE_MEMORY_TAGGING, __ARM_FEATURE_PAUTH, __ARM_FEATURE_FP8,  \
                          __ARM_FEATURE_CPA),                                                    \
      POSENC_DETAIL_SVE_BITS)
#define POSENC_INSTRUCTION_SETS \
  POSENC_DETAIL_WORD(a, POSENC_DETAIL_ARM_ARCH, POSENC_DETAIL_ARM_SETS, POSENC_DETAIL_SVE_SETS, , )

#elif defined(__powerpc__)

#define POSENC_INSTRUCTION_SETS                                                            \
  POSENC_DETAIL_WORD(p, POSENC_DETAIL_DIGIT(__ALTIVEC__, __VSX__, _ARCH_PWR7, _ARCH_PWR8), \
                     POSENC_DETAIL_DIGIT(_ARCH_PWR9, _ARCH_PWR10, _ARCH_PWR11, __MMA__), , , )

#else
#define POSENC_INSTRUCTION_SETS other
#endif
