#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Prints what each public header costs to compile: user seconds of -fsyntax-only, divided by those of Eigen's Tensor
# module alone. Each unit is compiled as often as said, and its shortest time counts:
#
#   tests/headers/cost.sh [<times>] [<header>...]      by default 3 times, all public headers
#
# CXX names the compiler, CXXFLAGS its flags. Headers that do not compile get a dash.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
times="${1:-3}"
shift || true
if (($# == 0)); then
  mapfile -t headers < <(cd include && find posenc -name '*.hpp' ! -path '*/detail/*' ! -path 'posenc/kernels/*' | LC_ALL=C sort)
else
  headers=("$@")
fi
compiler="${CXX:-c++}"
read -r -a flags <<<"${CXXFLAGS:--isystem /usr/include/eigen3}"
unit="$(mktemp --suffix=.cpp)"
trap 'rm -f "$unit"' EXIT

# user_seconds <header>: prints the shortest time, or nothing if the header does not compile.
user_seconds() {
  local TIMEFORMAT=%U best='' seconds n
  printf '#include <%s>\n' "$1" >"$unit"
  for ((n = 0; n < times; ++n)); do
    seconds="$({ time "$compiler" -std=c++20 -fsyntax-only -Iinclude "${flags[@]}" "$unit" >/dev/null 2>&1; } 2>&1)" || return 0
    if [[ -z "$best" ]] || awk "BEGIN { exit !($seconds < $best) }"; then best="$seconds"; fi
  done
  printf '%s' "$best"
}

eigen="$(user_seconds unsupported/Eigen/CXX11/Tensor)"
if [[ -z "$eigen" ]]; then
  echo "cost.sh: $compiler does not find Eigen's Tensor module; set CXXFLAGS" >&2
  exit 1
fi
for header in "${headers[@]}"; do
  seconds="$(user_seconds "$header")"
  if [[ -z "$seconds" ]]; then
    printf '%s\t-\n' "$header"
  else
    awk "BEGIN { printf \"%s\t%.2f\n\", \"$header\", $seconds / $eigen }"
  fi
done
