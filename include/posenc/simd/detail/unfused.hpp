// SPDX-License-Identifier: MIT
#pragma once

#include <posenc/core/config.hpp>

POSENC_BEGIN
namespace detail {

/// x, a product, as a number of its own. GCC fuses a product with the sum that it goes into wherever the
/// processor can (-ffp-contract=fast is its default, and its vector intrinsics are products like any
/// other). What is to be fused is written as mul_add; everywhere else that would give other bits than other
/// compilers and lower levels of optimisation, and where a product's rounding error is added to it
/// later, wrong ones. Costs no instruction.
template <class T>
POSENC_ALWAYS_INLINE T unfused(T x) noexcept {
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
