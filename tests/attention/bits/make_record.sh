#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Writes the record of attention's bits, record/<tier>.txt, from the headers of a commit:
#   tests/attention/bits/make_record.sh [<commit>] [<compiler>]
# The record in the repository is that of commit 801e7b4, except for calls with dropout, whose numbers changed in 0.2.0.
# Write a new one only if bits change on purpose, and state the change in CHANGELOG.md. The record of a tier that this
# processor lacks is kept. The record of NEON is written under qemu, if it is installed.
# Products of bfloat16 by bfloat16 have the bits of their tier, AVX-512, so they have no separate record.
set -euo pipefail
commit="${1:-801e7b4}"
compiler="${2:-g++}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
eigen="${EIGEN_FLAGS:--isystem /usr/include/eigen3}"

work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
git -C "$here/../../.." archive "$commit" include | tar -x -C "$work"

mkdir -p "$here/record"
record() {  # <tier> <flags>...
  local tier="$1"
  shift
  for unit in main calls caches modules; do
    # shellcheck disable=SC2086
    "$compiler" -std=c++20 -O1 "$@" $eigen -I "$work/include" -c "$here/$unit.cpp" -o "$work/$unit.o"
  done
  "$compiler" "$work"/{main,calls,caches,modules}.o -o "$work/bits"
  if $run "$work/bits" > "$work/$tier.txt"; then
    sort "$work/$tier.txt" > "$here/record/$tier.txt"
  else
    echo "$tier: $(tail -n 1 "$work/$tier.txt")"
  fi
}
run=""
record avx2 -march=x86-64-v3
record avx512 -march=x86-64-v4
if command -v aarch64-linux-gnu-g++ >/dev/null && command -v qemu-aarch64 >/dev/null; then
  compiler=aarch64-linux-gnu-g++ run="qemu-aarch64 -L /usr/aarch64-linux-gnu"
  record neon -march=armv8-a
fi
