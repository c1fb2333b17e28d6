#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Flags that let a compiler reorder sums must be rejected, by the compiler or else by the constructors of Rope and
# T5Buckets. Other flags must be accepted:
# tests/levels/fast_math.sh <compiler> <posenc's include directory> <scratch directory>
set -euo pipefail
export LC_ALL=C
compiler="$1"
include="$2"
work="$3/fast_math"
mkdir -p "$work"

cat >"$work/program.cpp" <<'PROGRAM'
#include <posenc/bias/t5.hpp>
#include <posenc/rotary/rope.hpp>
#include <cstdio>
int main(int count, char**) {
  try {
    if (count == 1) const posenc::Rope<posenc::HalfRotate> rope(posenc::Frequencies::from_inv_freq({1.0}));
    if (count > 1) const posenc::T5Buckets buckets({.direction = posenc::T5Direction::Causal});
  } catch (const posenc::ConfigError& error) {
    std::puts(error.what());
    return 1;
  }
}
PROGRAM

rule='-fassociative-math, a part of -funsafe-math-optimizations, breaks exact angles; compile without it, or define POSENC_ALLOW_FAST_MATH to give up the accuracy'

# outcome <flags>...: prints "accepted", or "refused" if the message states the reason.
outcome() {
  if ! "$compiler" -std=c++20 -I "$include" "$@" "$work/program.cpp" -o "$work/program" 2>"$work/said"; then
    grep -q 'posenc: -ffast-math' "$work/said" && echo refused || cat "$work/said"
  elif "$work/program" >"$work/said" && "$work/program" buckets >"$work/said"; then
    echo accepted
  else
    grep -qFe "$rule" "$work/said" && echo refused || cat "$work/said"
  fi
}
expect() {
  local wanted="$1" found
  shift
  found="$(outcome "$@")"
  [[ "$found" == "$wanted" ]] || { echo "$*: $found, but should be $wanted"; exit 1; }
}

for level in -O1 -O3; do
  expect refused "$level" -ffast-math
  expect refused "$level" -ffinite-math-only
  expect refused "$level" -ffast-math -fno-finite-math-only
  expect refused "$level" -funsafe-math-optimizations
  expect refused "$level" -fassociative-math -fno-signed-zeros -fno-trapping-math
  expect accepted "$level" -funsafe-math-optimizations -DPOSENC_ALLOW_FAST_MATH
  expect accepted "$level"
  expect accepted "$level" -fno-math-errno -fno-trapping-math -ffp-contract=fast
done
