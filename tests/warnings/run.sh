#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compiles typical calls of every public header with optimisation, as a user's build does. posenc's headers are no system
# headers, and a warning is an error.
#
#   tests/warnings/run.sh             a sample: half of the sources, each in one combination
#   tests/warnings/run.sh --full      each source with g++ and clang++, -O2 and -O3, and four settings of -march
#   tests/warnings/run.sh --headers   compiles nothing, but checks that each public header is included by a source
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source_dir="$(cd "$here/../.." && pwd)"
source "$here/../support/one_in.sh"

# frequency.cpp calls the rules that rotary_rule.hpp lists.
missing="$(comm -23 \
  <(cd "$source_dir/include" && find posenc -name '*.hpp' -not -path '*/detail/*' -not -path 'posenc/kernels/*' | sort) \
  <(sed -n 's/^#include <\(posenc\/.*\)>$/\1/p' "$here"/*.cpp "$source_dir/include/posenc/frequency/rotary_rule.hpp" |
    sort -u))"
if [[ -n "$missing" ]]; then
  echo "no source in tests/warnings includes these public headers: add them, with a typical call of each:" >&2
  echo "$missing" >&2
  exit 1
fi

read -r eigen <<<"$(pkg-config --cflags-only-I eigen3 2>/dev/null || echo -I/usr/include/eigen3)"
export source_dir eigen

# compile <source> <compiler> <flags>...
compile() {
  local source="$1" log
  shift
  # Eigen's headers are no system headers either, so that warnings about posenc's instantiations of
  # them appear. Warnings of Eigen 3.4 itself are disabled: variables unused for AVX-512, and its
  # thread pool's captures of *this.
  log="$("$@" -std=c++20 -Wall -Wextra -Werror -Wno-unused-variable -Wno-deprecated -I "$source_dir/include" "$eigen" \
    -c "$source_dir/tests/warnings/$source" -o /dev/null 2>&1)" && return 0
  printf -- '-- %s %s\n%s\n' "$*" "$source" "$log"
  return 1
}
export -f compile

compilers=()
for compiler in g++ clang++; do
  if command -v "$compiler" >/dev/null; then compilers+=("$compiler"); else echo "-- skipped, there is no $compiler"; fi
done
flags=("" -march=native)
[[ "$(uname -m)" == x86_64 ]] && flags=("" -march=x86-64-v2 -march=x86-64-v3 -march=native)
# The slowest sources come first, so that no processor idles at the end.
sources=(module.cpp attention.cpp cache.cpp rotary.cpp interop.cpp threads.cpp)
for path in "$here"/*.cpp; do
  [[ " ${sources[*]} " == *" ${path##*/} "* ]] || sources+=("${path##*/}")
done

all() {
  local compiler level flag
  for compiler in "${compilers[@]}"; do
    for flag in "${flags[@]}"; do
      for level in -O2 -O3; do
        for source in "${sources[@]}"; do echo "$source $compiler $level $flag"; done
      done
    done
  done
}

# Half of the sources each day: a source has the first combination every fourth day, and two days later the next one of a list.
# Readers of files compile slowly and have no loops over tensors, so they have the first combination alone.
sample() {
  local others=() compiler flag n=0
  for flag in "${flags[@]}"; do
    for compiler in "${compilers[@]}"; do
      others+=("$compiler -O$((2 + (n + n / 2 + 1) % 2)) $flag")
      n=$((n + 1))
    done
  done
  for n in "${!sources[@]}"; do
    case $(((n + POSENC_SEED) % 4)):"${sources[n]}" in
      0:* | 2:interop.cpp) echo "${sources[n]} ${compilers[0]} -O2" ;;
      2:*) echo "${sources[n]} ${others[(n + POSENC_SEED) / 4 % ${#others[@]}]}" ;;
    esac
  done
}

case "${1:-}" in
  --headers) exit 0 ;;
  --full) list=all ;;
  "") list=sample ;;
  *) echo "tests/warnings/run.sh: unknown argument '$1'; use --full, --headers or nothing" >&2; exit 2 ;;
esac
"$list" | xargs -P "${JOBS:-2}" -d '\n' -n 1 bash -c 'compile $0'
echo "-- $("$list" | wc -l) compilations without a warning, POSENC_SEED=$POSENC_SEED"
