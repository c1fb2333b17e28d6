#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes the single headers and uses them in place of the tree of headers:
#
#   tests/single/run.sh <directory to build in>           a sample of rotary/'s tests, with one compiler for each header
#   tests/single/run.sh <directory to build in> --full    all of them that use public names only, with g++ and clang++
#
# The same bytes must come from any folder. A program that has units with different headers must link. Headers that must not
# meet in one unit must give an error that says so. Sources are compiled unchanged, because a folder of one-line headers
# posenc/... leads to the single header.
set -euo pipefail
export LC_ALL=C

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source_dir="$(cd "$here/../.." && pwd)"
case "${2:-}" in
  "") full=0 ;;
  --full) full=1 ;;
  *) echo "tests/single/run.sh: unknown argument '$2'; use --full or nothing" >&2; exit 2 ;;
esac
mkdir -p "$1"
work="$(mktemp --directory "$(cd "$1" && pwd)/single.XXXXXX")"
trap 'rm -rf "$work"' EXIT

compilers=()
for compiler in g++ clang++; do
  if command -v "$compiler" >/dev/null; then compilers+=("$compiler"); else echo "-- skipped, there is no $compiler"; fi
done
read -r eigen <<<"$(pkg-config --cflags-only-I eigen3 2>/dev/null || echo -I/usr/include/eigen3)"
eigen=(-isystem "${eigen#-I}")
flags=(-std=c++20 -O0 -Wall -Wextra -Werror)

cmake -D SOURCE_DIR="$source_dir" -D OUTPUT_DIR="$work/single" -P "$source_dir/cmake/single_header.cmake"
# A second time elsewhere, by the lines of cmake/README.md.
lines="$(grep '^cmake .*build/single-headers' "$source_dir/cmake/README.md")"
mkdir "$work/another place"
cp -R "$source_dir/"{CMakeLists.txt,LICENSE,cmake,include} "$work/another place/"
(cd "$work/another place" && bash -euo pipefail -c "$lines") >"$work/log" || { cat "$work/log"; exit 1; } >&2
diff --recursive "$work/single" "$work/another place/build/single-headers/single"
rm -rf "$work/another place"

# forward_<name>/posenc/ has a header for each one that a single header contains.
for name in rope all; do
  sed -n 's/^\/\/ ==== \(.*\) ====$/\1/p' "$work/single/posenc_$name.hpp" | while IFS= read -r header; do
    mkdir -p "$work/forward_$name/$(dirname "$header")"
    printf '#pragma once\n#include <posenc_%s.hpp>\n' "$name" >"$work/forward_$name/$header"
  done
done
missing="$(comm -23 <(cd "$source_dir/include" && find posenc -name '*.hpp' | sort) \
  <(cd "$work/forward_all" && find posenc -name '*.hpp' | sort))"
[[ -z "$missing" ]] || { echo "posenc_all.hpp lacks $missing" >&2; exit 1; }

echo "-- units with different headers in one program"
# unit <compiler> <name> <first header> <second header>
unit() {
  "$1" "${flags[@]}" -I "$work/single" -I "$source_dir/include" "${eigen[@]}" -DFUNCTION="rotate_by_$2" -DFIRST="<$3>" \
    -DSECOND="<$4>" -c "$here/rotate.cpp" -o "$work/$2.o"
}
last="${compilers[${#compilers[@]} - 1]}"
unit "${compilers[0]}" rope posenc_rope.hpp cstddef
unit "$last" all posenc_all.hpp posenc_rope.hpp
unit "${compilers[0]}" both posenc_rope.hpp posenc_all.hpp
unit "$last" tree posenc/rotary/rope.hpp posenc/frequency/unscaled.hpp
"${compilers[0]}" "${flags[@]}" "$here/link.cpp" "$work"/{rope,all,both,tree}.o -o "$work/link"
"$work/link"

echo "-- posenc_rope.hpp reads no other header than the standard library's"
printf '#include <posenc_rope.hpp>\n' >"$work/unit.cpp"
"${compilers[0]}" "${flags[@]}" "${eigen[@]}" -I "$source_dir/include" -I "$work/single" -M "$work/unit.cpp" >"$work/read"
if grep --extended-regexp 'Eigen/|include/posenc/' "$work/read"; then exit 1; fi

# first_error <text> <includes of a unit, a line> [<flags>...]
first_error() {
  local compiler
  printf '%b' "$2" >"$work/unit.cpp"
  for compiler in "${compilers[@]}"; do
    "$compiler" "${flags[@]}" -I "$work/single" -I "$source_dir/include" "${eigen[@]}" "${@:3}" -fsyntax-only "$work/unit.cpp" \
      2>"$work/log" && { echo "$2 compiles" >&2; return 1; }
    grep --max-count=1 'error: ' "$work/log" | grep --quiet --fixed-strings -e "$1" || { cat "$work/log"; return 1; } >&2
  done
}
echo "-- headers that must not meet, and C++17"
first_error 'posenc_rope.hpp is included after a header posenc/...' \
  '#include <posenc/core/error.hpp>\n#include <posenc_rope.hpp>\n'
first_error 'a header posenc/... is included after a single header' \
  '#include <posenc_rope.hpp>\n#include <posenc/core/error.hpp>\n'
sed '/^#define POSENC_VERSION_PATCH/d' "$work/single/posenc_rope.hpp" >"$work/single/other.hpp"
first_error 'posenc_all.hpp is included after a single header of another version' \
  '#define POSENC_VERSION_PATCH 99\n#include <other.hpp>\n#include <posenc_all.hpp>\n'
first_error 'posenc needs C++20' '#include <posenc_rope.hpp>\n' -std=c++17

# The compiler's main() for tests, made once.
catch2_main=("$work/main.o")
printf '#define CATCH_CONFIG_MAIN\n#include "support/catch.hpp"\n' >"$work/main.cpp"
if pkg-config --exists catch2-with-main; then
  read -ra catch2_main <<<"$(pkg-config --libs catch2-with-main)"
else
  "${compilers[0]}" "${flags[@]}" -I "$source_dir/tests" -c "$work/main.cpp" -o "$work/main.o"
fi

# run_tests <compiler> <rope or all> <source>...: compiles sources of tests/rotary jointly, as preset test does, and runs them.
run_tests() {
  local compiler="$1" name="$2" log="$work/$1_$2"
  shift 2
  printf '#include "rotary/%s"\n' "$@" >"$log.cpp"
  "$compiler" "${flags[@]}" -Wno-unused-function -I "$work/forward_$name" -I "$work/single" -I "$source_dir/tests" \
    "${eigen[@]}" -DEIGEN_USE_THREADS= -c "$log.cpp" -o "$log.o"
  "$compiler" "$log.o" "${catch2_main[@]}" -pthread -o "$log"
  echo "-- $compiler, posenc_$name.hpp: $*"
  "$log"
}

# quickstart <compiler>
quickstart() {
  echo "-- $1, posenc_all.hpp: examples/quickstart.cpp"
  "$1" "${flags[@]}" -I "$work/forward_all" -I "$work/single" "${eigen[@]}" "$source_dir/examples/quickstart.cpp" \
    -o "$work/quickstart"
  "$work/quickstart"
}

if ((!full)); then
  run_tests "${compilers[0]}" rope axial_test.cpp pair_axes_test.cpp permute_test.cpp rotary_calls_test.cpp
  quickstart "$last"
  exit
fi
# Sources that name detail are not a user's, and rope_overlap_test.cpp defines what the library is configured with.
cd "$source_dir/tests/rotary"
mapfile -t public < <(grep --files-without-match -E 'detail|every_rope|rotation_kernel_case|define POSENC_' *_test.cpp)
mapfile -t without_eigen < <(grep --files-without-match -E '<(posenc/interop|Eigen|unsupported)/|tensor/eigen' "${public[@]}")
printf '#include <posenc_all.hpp>\nauto read(std::string_view json) { return posenc::read_hf_config(json); }\n' >"$work/unit.cpp"
for compiler in "${compilers[@]}"; do
  "$compiler" "${flags[@]}" -I "$work/single" "${eigen[@]}" -fsyntax-only "$work/unit.cpp"
  quickstart "$compiler"
  run_tests "$compiler" rope "${without_eigen[@]}"
  run_tests "$compiler" all "${public[@]}"
done
