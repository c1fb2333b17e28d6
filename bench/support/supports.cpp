// SPDX-License-Identifier: MIT
// posenc_bench_supports TIER: exit code 0 if this processor can run the program of that tier.
#include <cstring>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto asked = [&](const char* tier) { return std::strcmp(argv[1], tier) == 0; };
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return asked("sse2") || (asked("avx2") && avx2) || (asked("avx512") && avx512) ? 0 : 1;
}
