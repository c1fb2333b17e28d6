// SPDX-License-Identifier: MIT
#pragma once

// Every header of posenc includes this one first. With an older standard g++ would report thousands
// of errors. Only a missing include stops both g++ and clang++, so a file that does not exist is
// included.
#if (defined(_MSVC_LANG) ? _MSVC_LANG : __cplusplus) <= 201703L
#error "posenc needs C++20: compile with -std=c++20 (MSVC: /std:c++20)"
#define POSENC_DETAIL_STOP <posenc needs C++20>
#include POSENC_DETAIL_STOP
#endif

// The texts of a single header have guards of their own, so they would be defined a second time.
#ifdef POSENC_SINGLE_HEADER
#error "posenc: a header posenc/... is included after a single header; include one or the other"
#define POSENC_DETAIL_STOP <posenc/... after a single header>
#include POSENC_DETAIL_STOP
#endif

#include <posenc/core/detail/instruction_sets.hpp>
#include <posenc/core/version.hpp>

#include <cstddef>
#include <cstdint>

// POSENC_LEVEL: readable name of the instruction sets that the compiler may emit in this
// translation unit. The kernels may use fewer (POSENC_TIER). All instruction sets are part of every
// mangled name. Otherwise a function compiled with AVX and the same function compiled without would
// share a symbol. The linker would keep either one, and a processor without AVX could run the wrong
// one.
#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && defined(__AVX512VL__)
#if defined(__AVX512BF16__)
#define POSENC_LEVEL avx512bf16
#else
#define POSENC_LEVEL avx512
#endif
#elif defined(__AVX512F__)
#define POSENC_LEVEL avx512f
#elif defined(__AVX2__) && (defined(_MSC_VER) || (defined(__FMA__) && defined(__F16C__)))
// MSVC's /arch:AVX2 implies FMA and F16C but defines neither macro.
#define POSENC_LEVEL avx2
#elif defined(__AVX2__) && defined(__FMA__)
#define POSENC_LEVEL avx2fma
#elif defined(__AVX2__)
#define POSENC_LEVEL avx2only
#elif defined(__AVX__) && defined(__FMA__)
#define POSENC_LEVEL avxfma
#elif defined(__AVX__)
#define POSENC_LEVEL avx
#elif defined(__SSE4_1__)
#define POSENC_LEVEL sse41
#elif defined(__SSE2__) || defined(_M_X64)
#define POSENC_LEVEL sse2
#elif defined(__aarch64__) || defined(_M_ARM64)
#define POSENC_LEVEL neon
#else
#define POSENC_LEVEL generic
#endif

// POSENC_HAS_FMA: fused multiply-add in hardware. On RISC-V, POWER and z/Architecture it is part of
// the instructions for double.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA) || defined(__aarch64__) || defined(_M_ARM64) || \
    (defined(_MSC_VER) && defined(__AVX2__)) || defined(__riscv_float_abi_double) ||               \
    defined(__powerpc64__) || defined(__s390x__)
#define POSENC_HAS_FMA 1
#else
#define POSENC_HAS_FMA 0
#endif

// POSENC_HAS_<tier>: the kernels that the flags allow. The AVX2 kernels need AVX2 and FMA, the
// AVX-512 kernels in addition AVX-512 F, BW, DQ and VL.
#if defined(__SSE2__) || defined(_M_X64)
#define POSENC_HAS_SSE2 1
#else
#define POSENC_HAS_SSE2 0
#endif
#if defined(__AVX2__) && (defined(_MSC_VER) || defined(__FMA__))
#define POSENC_HAS_AVX2 1
#else
#define POSENC_HAS_AVX2 0
#endif
#if defined(__F16C__) || (defined(_MSC_VER) && defined(__AVX2__))
#define POSENC_HAS_F16C 1
#else
#define POSENC_HAS_F16C 0
#endif
#if POSENC_HAS_AVX2 && defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__AVX512VL__)
#define POSENC_HAS_AVX512 1
#else
#define POSENC_HAS_AVX512 0
#endif
#if defined(__aarch64__) || defined(_M_ARM64)
#define POSENC_HAS_NEON 1
#else
#define POSENC_HAS_NEON 0
#endif

/// The tier of the kernels: scalar, sse2, avx2, avx512 or neon. If not defined, it is the best tier
/// that the flags allow. Define it to select a lower tier.
#ifdef POSENC_TIER
#define POSENC_DETAIL_TIER_TAG(tier) POSENC_DETAIL_TIER_TAG_(tier)
#define POSENC_DETAIL_TIER_TAG_(tier) _tier_##tier
#define POSENC_TIER_TAG POSENC_DETAIL_TIER_TAG(POSENC_TIER)
#else
#define POSENC_TIER_TAG
#if defined(__AVX512F__) && !POSENC_HAS_AVX512
#define POSENC_MISSING "AVX-512 BW, DQ, VL and FMA (avx512)"
#elif defined(__AVX2__) && !POSENC_HAS_AVX2
#define POSENC_MISSING "FMA (avx2)"
#endif
#if POSENC_HAS_AVX512
#define POSENC_TIER avx512
#elif POSENC_HAS_AVX2
#define POSENC_TIER avx2
#elif POSENC_HAS_SSE2
#define POSENC_TIER sse2
#elif POSENC_HAS_NEON
#define POSENC_TIER neon
#else
#define POSENC_TIER scalar
#endif
#endif
/// The instruction sets that the flags lack for kernels of their vector width, and the tier of
/// those kernels, such as "FMA (avx2)". Empty if nothing is missing.
#ifndef POSENC_MISSING
#define POSENC_MISSING ""
#elif !POSENC_HAS_AVX2 && defined(__GNUC__)
#pragma message("posenc: -mavx2 without -mfma runs the SSE2 kernels; the AVX2 ones need both")
#endif

/// 1 if attention multiplies bfloat16 by bfloat16 (vdpbf16ps), 0 if it converts them to float
/// first. If not defined, it is 1 if the flags enable AVX512_BF16 and not AMX. Define it as 1 or 0
/// to override.
///
/// On AMD processors vdpbf16ps takes the time of one float multiply-add and does twice the work. On
/// Intel processors it takes the time of two, and packing pairs made prefill 1.3 to 1.5 times
/// slower. All Intel processors with AVX512_BF16 except Cooper Lake have AMX, so AMX identifies
/// them. Results are bit-identical, except that vdpbf16ps treats magnitudes below 2^-126 as zero.
#ifdef POSENC_BFLOAT16_PRODUCTS
#define POSENC_DETAIL_PRODUCTS_TAG(products) POSENC_DETAIL_PRODUCTS_TAG_(products)
#define POSENC_DETAIL_PRODUCTS_TAG_(products) _bfloat16_products_##products
#define POSENC_PRODUCTS_TAG POSENC_DETAIL_PRODUCTS_TAG(POSENC_BFLOAT16_PRODUCTS)
#if POSENC_BFLOAT16_PRODUCTS && !defined(__AVX512BF16__)
#error "posenc: POSENC_BFLOAT16_PRODUCTS=1 needs AVX512_BF16, as -mavx512bf16 gives it"
#endif
#else
#define POSENC_PRODUCTS_TAG
#if defined(__AVX512BF16__) && !defined(POSENC_DETAIL_AMX_BF16)
#define POSENC_BFLOAT16_PRODUCTS 1
#else
#define POSENC_BFLOAT16_PRODUCTS 0
#endif
#endif

/// 1 if arrays of 4 MiB or more (caches, tables, weights, scratch memory) are aligned to 2 MiB and
/// request pages of that size by madvise(MADV_HUGEPAGE), 0 if not. If not defined, it is 1 on
/// Linux. Define it as 0 to leave pages to the allocator. Other systems have no such call.
///
/// With pages of 4 KiB a long cache exceeds the TLB, and each new page of a table is a fault. Linux
/// obeys if /sys/kernel/mm/transparent_hugepage/enabled is "madvise", the default of most
/// distributions, or "always". Blocks of a KvBlockPool are allocated one by one and are not
/// affected.
#ifdef POSENC_HUGE_PAGES
#define POSENC_DETAIL_PAGES_TAG(pages) POSENC_DETAIL_PAGES_TAG_(pages)
#define POSENC_DETAIL_PAGES_TAG_(pages) _huge_pages_##pages
#define POSENC_PAGES_TAG POSENC_DETAIL_PAGES_TAG(POSENC_HUGE_PAGES)
#if POSENC_HUGE_PAGES && !defined(__linux__)
#error "posenc: POSENC_HUGE_PAGES=1 needs madvise() of Linux"
#endif
#else
#define POSENC_PAGES_TAG
#if defined(__linux__)
#define POSENC_HUGE_PAGES 1
#else
#define POSENC_HUGE_PAGES 0
#endif
#endif

#if defined(_MSC_VER)
#define POSENC_ALWAYS_INLINE __forceinline
#define POSENC_STABLE_INLINE __forceinline
#define POSENC_NOINLINE __declspec(noinline)
#define POSENC_COLD __declspec(noinline)
#define POSENC_NO_UNIQUE_ADDRESS [[msvc::no_unique_address]]
#else
// Without optimisation forced inlining triples the code of a kernel and the time to compile it, and
// the result is no faster to debug.
#if defined(__OPTIMIZE__)
#define POSENC_ALWAYS_INLINE [[gnu::always_inline]] inline
#else
#define POSENC_ALWAYS_INLINE inline
#endif
// For functions of the stable namespace, which units with other flags must not share.
#define POSENC_STABLE_INLINE [[gnu::always_inline]] inline
#define POSENC_NOINLINE [[gnu::noinline]]
// For functions that run when a call fails, or once per call or encoding. Compiled for size, they
// take less time to compile.
#define POSENC_COLD [[gnu::cold, gnu::noinline]]
#define POSENC_NO_UNIQUE_ADDRESS [[no_unique_address]]
#endif
#if defined(_MSC_VER) && !defined(__clang__)
#define POSENC_INLINE_LAMBDA [[msvc::forceinline]]
#elif defined(__OPTIMIZE__)
#define POSENC_INLINE_LAMBDA __attribute__((always_inline))
#else
#define POSENC_INLINE_LAMBDA
#endif

// g++ 12 warns of the undefined operands of its own AVX-512 intrinsics wherever they are inlined
// (PR 105593). A pragma around the functions that use the intrinsics silences the warning in them.
// Around Eigen's headers it silences the warning in Eigen's product, unless Eigen was included
// before.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13 && defined(__AVX512F__)
#define POSENC_UNDEFINED_OPERANDS_BEGIN                                                \
  _Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wuninitialized\"") \
      _Pragma("GCC diagnostic ignored \"-Wmaybe-uninitialized\"")
#define POSENC_UNDEFINED_OPERANDS_END _Pragma("GCC diagnostic pop")
#else
#define POSENC_UNDEFINED_OPERANDS_BEGIN
#define POSENC_UNDEFINED_OPERANDS_END
#endif

/// 1 enables checks that cost more than a few comparisons per call: the check for overlapping
/// views.
#ifndef POSENC_CHECKED
#define POSENC_CHECKED 0
#endif
#if POSENC_CHECKED
#define POSENC_CHECKED_TAG _checked
#else
#define POSENC_CHECKED_TAG
#endif

/// 1 in programs that link posenc::compiled, whose target defines it: what that library has is
/// declared and not compiled again. A unit without it has functions of its own, under other names.
#ifndef POSENC_COMPILED
#define POSENC_COMPILED 0
#endif
#if POSENC_COMPILED
#define POSENC_COMPILED_TAG _compiled
#else
#define POSENC_COMPILED_TAG
#endif

#if defined(__cpp_exceptions) || defined(_CPPUNWIND)
#define POSENC_HAS_EXCEPTIONS 1
#define POSENC_EXCEPTIONS_TAG
#else
#define POSENC_HAS_EXCEPTIONS 0
#define POSENC_EXCEPTIONS_TAG _noexcept
#endif

// Angle reduction depends on the order of floating-point operations, and an empty attention row is
// -inf. -ffast-math breaks both. -fassociative-math alone, which remains of it if
// -fno-finite-math-only is added, breaks the order. clang++ has no macro for it, so encodings test
// the order at run time.
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__) || \
    defined(__ASSOCIATIVE_MATH__) || defined(_M_FP_FAST)
#ifndef POSENC_ALLOW_FAST_MATH
#error \
    "posenc: -ffast-math, -ffinite-math-only and -fassociative-math (part of \
-funsafe-math-optimizations) break exact angles and empty attention rows. Compile this file \
without them, or define POSENC_ALLOW_FAST_MATH to give up the accuracy and infinity guarantees."
#endif
#define POSENC_FAST_MATH 1
#define POSENC_FAST_MATH_TAG _fastmath
#else
#define POSENC_FAST_MATH 0
#define POSENC_FAST_MATH_TAG
#endif

// Compilers order the implicit captures of a lambda differently, so a function of one compiler must
// not be called with a lambda of another.
#if defined(__clang__)
#define POSENC_COMPILER_TAG _clang
#elif defined(__GNUC__)
#define POSENC_COMPILER_TAG _gcc
#else
#define POSENC_COMPILER_TAG
#endif

// Switches that change the layout of standard containers: libc++, libstdc++'s debug mode, and its
// strings from before C++11. Their macros are defined once a standard header has been included.
#if defined(_LIBCPP_VERSION)
#define POSENC_STD_TAG _libcxx
#elif defined(_GLIBCXX_DEBUG)
#define POSENC_STD_TAG _glibcxxdebug
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define POSENC_STD_TAG _oldstrings
#else
#define POSENC_STD_TAG
#endif

#define POSENC_DETAIL_JOIN(a, b, c, d, e, f, g, h, i, j, k, l, m, n) \
  a##b##_##c##_##d##_##e##f##g##h##i##j##k##l##m##n
#define POSENC_DETAIL_TAG(a, b, c, d, e, f, g, h, i, j, k, l, m, n) \
  POSENC_DETAIL_JOIN(a, b, c, d, e, f, g, h, i, j, k, l, m, n)
#define POSENC_DETAIL_JOIN3(a, b, c) a##b##_##c
#define POSENC_DETAIL_STABLE_TAG(a, b, c) POSENC_DETAIL_JOIN3(a, b, c)

/// Name of the inline namespace for everything whose body depends on the compiler or its flags.
#define POSENC_ABI_TAG                                                               \
  POSENC_DETAIL_TAG(v, POSENC_VERSION_MAJOR, POSENC_VERSION_MINOR, POSENC_LEVEL,     \
                    POSENC_INSTRUCTION_SETS, POSENC_TIER_TAG, POSENC_PRODUCTS_TAG,   \
                    POSENC_CHECKED_TAG, POSENC_EXCEPTIONS_TAG, POSENC_FAST_MATH_TAG, \
                    POSENC_COMPILER_TAG, POSENC_STD_TAG, POSENC_PAGES_TAG, POSENC_COMPILED_TAG)
/// Name of the inline namespace for errors, enums and trivially copyable config structs, which are
/// the same types under all flags. A struct that holds a vector belongs in the other namespace,
/// because the compiler generates functions for it.
#define POSENC_STABLE_TAG POSENC_DETAIL_STABLE_TAG(v, POSENC_VERSION_MAJOR, POSENC_VERSION_MINOR)

#define POSENC_BEGIN \
  namespace posenc { \
  inline namespace POSENC_ABI_TAG {
#define POSENC_END \
  }                \
  }
#define POSENC_STABLE_BEGIN \
  namespace posenc {        \
  inline namespace POSENC_STABLE_TAG {
#define POSENC_STABLE_END \
  }                       \
  }

POSENC_STABLE_BEGIN
/// The type of every extent, stride and loop counter. It has 64 bits, because products of attention
/// shapes exceed 2^31 in practice.
using Index = std::int64_t;
POSENC_STABLE_END
