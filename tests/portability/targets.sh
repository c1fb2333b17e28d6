#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Other processors: clang++ compiles every public header and the quickstart's rotation for 64-bit Arm, RISC-V and
# WebAssembly, and for 32 bits. A program with fixed inputs (sample.cpp) runs as WebAssembly in node, and as RISC-V in qemu.
# Its numbers must equal those of this machine within 1e-6.
#
#   tests/portability/targets.sh [--require]
#
# Tools that are not installed are skipped by name. With --require a skip is a failure, except for the targets that
# `cmake/install-deps.sh ci` does not install tools for.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source_dir="$(cd "$here/../.." && pwd)"
require=0
case "${1:-}" in
  "") ;;
  --require) require=1 ;;
  *) echo "targets.sh: unknown argument '$1'; use --require or nothing" >&2; exit 2 ;;
esac
scratch="$(mktemp --directory)"
trap 'rm -rf "$scratch"' EXIT

warnings=(-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wdouble-promotion -Werror)
flags=(-std=c++20 "${warnings[@]}" -I "$source_dir/include")
read -r eigen <<<"$(pkg-config --cflags-only-I eigen3)"
with_eigen=(-isystem "${eigen#-I}")
# nlohmann-json's headers work for every target, but their installation folder has other headers
# that do not.
[[ -d /usr/include/nlohmann ]] && ln -s /usr/include/nlohmann "$scratch/nlohmann" && with_eigen+=(-isystem "$scratch")

# skip <name> <missing tool>: with optional=1 for tools that CI does not install.
skip() {
  if ((require && !${optional:-0})); then
    echo "targets.sh: $1: $2 is missing, which cmake/install-deps.sh ci installs" >&2
    exit 1
  fi
  echo "-- $1: skipped, there is no $2"
}

# has <name> <program or file>...
has() {
  local name="$1" needed
  shift
  for needed in "$@"; do
    [[ "$needed" == /* && -e "$needed" ]] || command -v "$needed" >/dev/null || { skip "$name" "$needed"; return 1; }
  done
}

# All public headers as one unit, because a header that compiles alone does so on every target.
{
  cd "$source_dir/include"
  find posenc -name '*.hpp' -not -path '*/detail/*' | sort | sed 's/.*/#include <&>/'
  echo "#include \"$here/rotation.cpp\""
} >"$scratch/headers.cpp"

# headers <name> <file of the target's library> <flags>...
headers() {
  local name="$1" library="$2"
  shift 2
  has "$name" clang++ "$library" || return 0
  echo "-- $name: every public header"
  clang++ "$@" -fsyntax-only "${flags[@]}" "${with_eigen[@]}" "$scratch/headers.cpp"
}

wasi=/usr/include/wasm32-wasi/c++/v1
wasm=(--target=wasm32-wasi -fno-exceptions)
# Headers that Eigen 3.4 and nlohmann-json include by default, and that libc++ without threads and
# files rejects.
wasm_others=(-D_LIBCPP_THREAD -DJSON_HAS_FILESYSTEM=0 -DJSON_HAS_EXPERIMENTAL_FILESYSTEM=0)
headers "64-bit Arm" /usr/aarch64-linux-gnu/include --target=aarch64-linux-gnu
headers "RISC-V" /usr/riscv64-linux-gnu/include --target=riscv64-linux-gnu
headers "WebAssembly" "$wasi" "${wasm[@]}" "${wasm_others[@]}"
optional=1 headers "32-bit x86" /usr/i686-linux-gnu/include --target=i686-linux-gnu
optional=1 headers "32-bit Arm" /usr/arm-linux-gnueabihf/include --target=armv7-linux-gnueabihf

if has "WebAssembly, no Eigen" clang++ "$wasi"; then
  echo "-- WebAssembly, no Eigen: headers"
  clang++ "${wasm[@]}" -fsyntax-only "${flags[@]}" "$source_dir/tests/headers/without_eigen.cpp"
fi

# sample <name> <command that runs a program>... -- <compiler and flags>...
sample() {
  local name="$1" run=()
  shift
  while [[ "$1" != -- ]]; do run+=("$1"); shift; done
  shift
  echo "-- $name: numbers"
  "$@" -O1 "${flags[@]}" "$here/sample.cpp" -o "$scratch/program"
  "${run[@]}" "$scratch/program" >"$scratch/numbers"
  [[ -s "$scratch/expected" ]] || {
    g++ -O1 "${flags[@]}" "$here/sample.cpp" -o "$scratch/native"
    "$scratch/native" >"$scratch/expected"
  }
  # The comparison must fail for NaN, which is not below any tolerance.
  paste -d '|' "$scratch/expected" "$scratch/numbers" | awk -F '[|]' '
    {
      split($1, here, "] "); split($2, there, "] ")
      off = here[2] - there[2]
      if (here[1] != there[1] || here[2] !~ /^-?[0-9]/ || there[2] !~ /^-?[0-9]/ || !(off <= 1e-6 && off >= -1e-6)) {
        print "not the numbers of this machine: " $0; ++wrong
      }
    }
    END {
      if (wrong || NR < 2000) { print wrong + 0 " of " NR " numbers differ"; exit 1 }
      print "   " NR " numbers agree"
    }'
}

if has "WebAssembly in node" clang++ g++ wasm-ld node "$wasi" /usr/lib/wasm32-wasi/libc.a; then
  sample "WebAssembly in node" node --no-warnings "$here/wasi.mjs" -- clang++ "${wasm[@]}"
fi
if has "RISC-V under qemu" g++ riscv64-linux-gnu-g++ qemu-riscv64; then
  sample "RISC-V under qemu" qemu-riscv64 -L /usr/riscv64-linux-gnu -- riscv64-linux-gnu-g++
fi
