// SPDX-License-Identifier: MIT
#pragma once

namespace support {

/// True if this processor has the instructions that the program was compiled for.
inline bool processor_can() {
#if defined(__AVX512BF16__)
  if (!__builtin_cpu_supports("avx512bf16")) return false;
#endif
#if defined(__x86_64__) && defined(__AVX512F__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif defined(__x86_64__) && defined(__AVX2__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  return true;
#endif
}

}  // namespace support
