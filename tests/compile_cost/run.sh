#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compares what typical calls cost to compile with the record, by counts that do not depend on the machine's load: g++'s
# specializations of templates, and clang++'s statements and expressions, among which are those of instantiated bodies.
#
#   tests/compile_cost/run.sh            fails if a unit costs over 3 % more than RECORD says, or less by over 3 %
#   tests/compile_cost/run.sh --update   writes RECORD anew; say why in the commit
#
# Counts depend on the compiler and its standard library. Compilers of another version than those on record are skipped.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
cd "$here/../.."
record="$here/RECORD"
read -r eigen <<<"$(pkg-config --cflags-only-I eigen3 2>/dev/null || echo -I/usr/include/eigen3)"

# count <compiler> <unit>
count() {
  local flags=(-std=c++20 -fsyntax-only -Iinclude "-isystem${eigen#-I}")
  case "$1" in
    g++) g++ "${flags[@]}" -fstats "$2" 2>&1 |
      awk '/^(decl|type)_specializations:/ { for (i = 1; i < NF; ++i) if ($(i + 1) == "elements,") sum += $i } END { print sum + 0 }' ;;
    clang++) clang++ "${flags[@]}" -Xclang -print-stats "$2" 2>&1 |
      awk '/stmts\/exprs total/ { print $1; found = 1 } END { if (!found) print 0 }' ;;
  esac
}

counts() {
  local compiler version unit cost
  for compiler in g++ clang++; do
    command -v "$compiler" >/dev/null || continue
    version="$("$compiler" -dumpversion)"
    for unit in "$here"/units/*.cpp; do
      cost="$(count "$compiler" "$unit")"
      ((cost > 0)) || { echo "run.sh: $compiler prints no count for ${unit##*/}" >&2; return 1; }
      printf '%s %s %s %s\n' "$compiler" "$version" "$(basename "$unit" .cpp)" "$cost"
    done
  done
}

if [[ "${1:-}" == --update ]]; then
  header="$(sed -n '/^#/p' "$record")"
  { printf '%s\n' "$header"; counts; } >"$record.new"
  mv "$record.new" "$record"
  exit
fi

new="$(counts)"
awk '
  /^#/ { next }
  NR == FNR { cost[$1 " " $2 " " $3] = $4; next }
  {
    key = $1 " " $2 " " $3
    if (!(key in cost)) { printf "-- skipped, not on record: %s\n", key; next }
    ++compared
    ratio = $4 / cost[key]
    printf "%-8s %-12s %8d %8d  %.3f\n", $1, $3, cost[key], $4, ratio
    if (ratio > 1.03 || ratio < 0.97) { failed = 1 }
  }
  END {
    if (failed) print "more than 3 % from the record: run tests/compile_cost/run.sh --update, and say why"
    if (!compared) exit 77
    exit failed
  }' "$record" <(printf '%s\n' "$new")
