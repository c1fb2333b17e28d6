// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_BEGIN
namespace detail {

/// Returns the product x unchanged and prevents GCC from contracting it with a sum into an FMA. GCC
/// contracts by default (-ffp-contract=fast), also products written as vector intrinsics. Its bits
/// would differ from those of other compilers and of lower optimisation levels. They would be wrong
/// where a product's rounding error is added later. Intended fusion is written as mul_add().
///   Cost: no instruction
template <class T>
POSENC_ALWAYS_INLINE T prevent_contraction(T x) noexcept {
#if POSENC_HAS_FMA && defined(__GNUC__) && !defined(__clang__)
#if defined(__x86_64__) || defined(__i386__)
  asm("" : "+v"(x));  // NOLINT(hicpp-no-assembler): any vector register
#elif defined(__aarch64__)
  asm("" : "+w"(x));  // NOLINT(hicpp-no-assembler)
#elif defined(__riscv)
  asm("" : "+f"(x));  // NOLINT(hicpp-no-assembler)
#else
  asm("" : "+m"(x));  // NOLINT(hicpp-no-assembler)
#endif
#endif
  return x;
}

}  // namespace detail
POSENC_END
