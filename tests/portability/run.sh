#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compiles without generating code. Every public header is compiled for platforms where posenc is
# never run: Windows (mingw) with its macros, and libc++, the library of macOS. Benches are compiled
# with g++ and clang++, and examples with clang++, because other parts of CI build most of them with
# g++ only:
#
#   tests/portability/run.sh          a sample: a third of the benches with each compiler, and of the examples
#   tests/portability/run.sh --full   all of them
#
# Tools that are not installed are skipped by name.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source_dir="$(cd "$here/../.." && pwd)"
source "$here/../support/one_in.sh"
case "${1:-}" in
  "") one_in=3 ;;
  --full) one_in=1 ;;
  *) echo "tests/portability/run.sh: unknown argument '$1'; use --full or nothing" >&2; exit 2 ;;
esac
echo "-- one in $one_in benches and examples, POSENC_SEED=$POSENC_SEED"
read -r eigen <<<"$(pkg-config --cflags-only-I eigen3)"
flags=(-std=c++20 -fsyntax-only -Wall -Wextra -I "$source_dir/include" -isystem "${eigen#-I}")

# nlohmann-json's headers work for every target, but their installation folder has other headers
# that do not.
scratch="$(mktemp --directory)"
trap 'rm -rf "$scratch"' EXIT
[[ -d /usr/include/nlohmann ]] && ln -s /usr/include/nlohmann "$scratch/nlohmann" && flags+=(-isystem "$scratch")

# Compilations are collected, then run in parallel, one per processor.
commands=()
add() { commands+=("$(printf '%q ' "$@")"); }

# compile <name> <compiler and flags>...
compile() {
  local name="$1"
  shift
  command -v "$1" >/dev/null || { echo "-- $name: skipped, there is no $1"; return 0; }
  echo "-- $name"
  add "$@" "${flags[@]}" "$here/all_headers.cpp"
}

compile "Windows (mingw)" x86_64-w64-mingw32-g++-posix -Werror -Wno-unknown-pragmas
compile "Windows (mingw), AVX-512" x86_64-w64-mingw32-g++-posix -march=x86-64-v4
compile "libc++" clang++ -stdlib=libc++ -Werror

# jointly <compiler and flags>... -- <sources of examples/>...: compiles them as one unit, as the
# test command does.
jointly() {
  local command=() unit="$scratch/${#commands[@]}.cpp"
  while [[ "$1" != -- ]]; do command+=("$1"); shift; done
  shift
  printf '#include "%s"\n' "${@/#/$source_dir/examples/}" >"$unit"
  add "${command[@]}" "$unit"
}

strict=("${flags[@]}" -Werror -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wdouble-promotion
  -DEIGEN_USE_THREADS=)
mapfile -t benches < <(find "$source_dir/bench" -name '*.cpp' -not -path '*/peers/*' | sort)
compilers=(g++ clang++)
for n in 0 1; do
  compiler="${compilers[n]}"
  command -v "$compiler" >/dev/null || { echo "-- $compiler, benches: skipped, there is no $compiler"; continue; }
  echo "-- $compiler, benches"
  for bench in $(printf '%s\n' "${benches[@]}" | POSENC_SEED=$((POSENC_SEED + n)) one_in "$one_in"); do
    add "$compiler" "${strict[@]}" -march=native -DPOSENC_BENCH_FLAGS='""' -I "$source_dir/bench" "$bench"
  done
done

if command -v clang++ >/dev/null; then
  echo "-- clang++, examples"
  clang=(clang++ "${strict[@]}" -DSTUDY_EIGEN_FOLDERS='""' -DMPICH_SKIP_MPICXX -DOMPI_SKIP_MPICXX
    -I "$source_dir/examples/tour")
  read -ra mpi <<<"$(pkg-config --cflags-only-I ompi-cxx 2>/dev/null | sed 's/-I/-isystem /g')"
  cd "$source_dir/examples"
  gradients=train_short_test_long/gradient_check.cpp  # a separate program
  for source in $(printf '%s\n' *.cpp c_abi/*.cpp guide/*.cpp "$gradients" | one_in "$one_in"); do add "${clang[@]}" "$source"; done
  for program in $(printf '%s\n' posenc_inspect tour train_short_test_long | one_in "$one_in"); do
    mapfile -t sources < <(printf '%s\n' "$program"/*.cpp | grep -vxF "$gradients")
    jointly "${clang[@]}" -- "${sources[@]}"
  done
  ((${#mpi[@]} == 0)) || jointly "${clang[@]}" "${mpi[@]}" -- ring_attention/*.cpp
else
  echo "-- clang++, examples: skipped, there is no clang++"
fi

printf '%s\0' "${commands[@]}" | xargs -0 -r -n 1 -P "$(nproc)" bash -c
