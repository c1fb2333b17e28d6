// SPDX-License-Identifier: MIT
// Program of two units: each runs before and after the other, and must give the same result.
#include <cmath>
#include <cstdio>

#define DECLARE(unit)                           \
  namespace unit {                              \
  double work(const double* from, float* x);    \
  void fail(int kind);                          \
  int caught(void (*fail)(int kind), int kind); \
  }
DECLARE(FIRST)
DECLARE(SECOND)

int main() {
  static double from[32];
  static float x[48 * 256];
  for (int i = 0; i < 32; ++i) from[i] = 1 + i / 32.0;
  for (int i = 0; i < 48 * 256; ++i) x[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
  const double first = FIRST::work(from, x), second = SECOND::work(from, x);
  bool good = FIRST::work(from, x) == first && SECOND::work(from, x) == second;
  good = good && std::abs(first - second) <= 1e-4 * first;
  for (int kind = 0; kind < 4; ++kind) {
    good = good && FIRST::caught(SECOND::fail, kind) == kind &&
           SECOND::caught(FIRST::fail, kind) == kind;
  }
  if (!good) std::printf("%.9g and %.9g\n", first, second);
  return good ? 0 : 1;
}
