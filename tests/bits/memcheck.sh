#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs all cases of the hashes under valgrind's memcheck, with the kernels of the scalar tier: a result that depends on
# uninitialised memory, and a read past an array, are errors. Exits with 77 if there is no valgrind.
#
#   tests/bits/memcheck.sh
set -euo pipefail
command -v valgrind >/dev/null || { echo "memcheck.sh: skipped, valgrind is not installed"; exit 77; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
read -r eigen <<<"$(pkg-config --cflags-only-I eigen3 2>/dev/null || echo -I/usr/include/eigen3)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
g++ -std=c++20 -O1 -g1 -D POSENC_TIER=scalar "-isystem${eigen#-I}" -I "$here/../../include" "$here"/*.cpp -o "$work/bits" -pthread
valgrind --quiet --error-exitcode=1 "$work/bits" >"$work/hashes"
echo "memcheck.sh: no error in $(wc --lines <"$work/hashes") cases"
