#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compiles without generating code: every public header where posenc is never run, for Windows with its macros in force
# (mingw) and with libc++, the library of macOS; and with clang++ benches and examples, of which the rest of CI builds
# most with g++ alone. tests/portability/run.sh; what is not installed is skipped by name.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source_dir="$(cd "$here/../.." && pwd)"
read -r eigen <<<"$(pkg-config --cflags-only-I eigen3)"
flags=(-std=c++20 -fsyntax-only -Wall -Wextra -I "$source_dir/include" -isystem "${eigen#-I}")

# nlohmann-json's headers serve every target, but the folder they are installed in does not.
json="$(mktemp --directory)"
trap 'rm -rf "$json"' EXIT
[[ -d /usr/include/nlohmann ]] && ln -s /usr/include/nlohmann "$json/nlohmann" && flags+=(-isystem "$json")

# compile <name> <compiler and flags>...
compile() {
  local name="$1"
  shift
  command -v "$1" >/dev/null || { echo "-- $name: skipped, there is no $1"; return 0; }
  echo "-- $name"
  "$@" "${flags[@]}" "$here/all_headers.cpp"
}

compile "Windows (mingw)" x86_64-w64-mingw32-g++-posix -Werror -Wno-unknown-pragmas
compile "Windows (mingw), AVX-512" x86_64-w64-mingw32-g++-posix -march=x86-64-v4
compile "libc++" clang++ -stdlib=libc++ -Werror

# jointly <compiler and flags>... -- <sources of examples/>...: as one unit, which is what the test command makes of them too.
jointly() {
  local command=()
  while [[ "$1" != -- ]]; do command+=("$1"); shift; done
  shift
  printf '#include "%s"\n' "${@/#/$source_dir/examples/}" >"$json/unit.cpp"
  "${command[@]}" "$json/unit.cpp"
}

if command -v clang++ >/dev/null; then
  echo "-- clang++, benches and examples"
  clang=(clang++ "${flags[@]}" -Werror -Wpedantic -Wconversion -Wsign-conversion -Wshadow -Wold-style-cast -Wdouble-promotion
    -DPOSENC_BENCH_FLAGS='""' -DSTUDY_EIGEN_FOLDERS='""' -DMPICH_SKIP_MPICXX -DOMPI_SKIP_MPICXX -DEIGEN_USE_THREADS=
    -I "$source_dir/bench" -I "$source_dir/examples/tour")
  read -ra mpi <<<"$(pkg-config --cflags-only-I ompi-cxx 2>/dev/null | sed 's/-I/-isystem /g')"
  find "$source_dir/bench" "$source_dir/examples" -maxdepth 1 -name '*.cpp' -print0 | xargs -0 -n 1 "${clang[@]}"
  find "$source_dir"/bench/*/ -name '*.cpp' -not -path '*/peers/*' -print0 | xargs -0 -n 1 "${clang[@]}"
  cd "$source_dir/examples"
  gradients=train_short_test_long/gradient_check.cpp  # a program of its own
  "${clang[@]}" "$gradients"
  for program in posenc_inspect tour train_short_test_long; do
    mapfile -t sources < <(printf '%s\n' "$program"/*.cpp | grep -vxF "$gradients")
    jointly "${clang[@]}" -- "${sources[@]}"
  done
  ((${#mpi[@]} == 0)) || jointly "${clang[@]}" "${mpi[@]}" -- ring_attention/*.cpp
else
  echo "-- clang++, benches and examples: skipped, there is no clang++"
fi
