#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Links units with different flags into one program and runs it, in both orders of linking:
#   tests/levels/linking/run.sh <directory to build in> <compiler>... [-- <optimisation>...]
# With two compilers, their units are mixed too. EIGEN_FLAGS is the include flag of Eigen; LEVELS selects levels. Levels that
# this processor lacks are skipped.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
mkdir -p "$1"
work="$(mktemp --directory "$(cd "$1" && pwd)/linking.XXXXXX")"
trap 'rm -rf "$work"' EXIT
shift
compilers=() optimisations=(-O0 -O1 -O2)
while (($#)) && [[ "$1" != -- ]]; do compilers+=("$1"); shift; done
if (($# > 1)); then shift; optimisations=("$@"); fi

levels=(x86-64)
wanted=" ${LEVELS:-x86-64-v3 x86-64-v4} "
has() { grep -qw -- "$1" /proc/cpuinfo; }
if [[ "$wanted" == *" x86-64-v3 "* ]] && has avx2 && has fma && has bmi2; then levels+=(x86-64-v3); fi
if [[ "$wanted" == *" x86-64-v4 "* ]] && has avx512f && has avx512bw && has avx512dq && has avx512vl; then levels+=(x86-64-v4); fi
((${#levels[@]} * ${#compilers[@]} > 1)) || { echo "this processor has one level alone"; exit 0; }

# Functions that the linker may take from any unit although they are outside of the unit's
# namespace: the standard library, Eigen, the errors.
shared_by_mistake() {
  nm -C "$1" | sed -nE 's/^[0-9a-f]* [WVu] //p' | grep -vE 'posenc::v[0-9]+_[0-9]+_[a-z]' |
    sed -E ':again; s/(operator)?<[^<>]*>//g; t again' | grep 'posenc::' |
    grep -vE 'posenc::v[0-9]+_[0-9]+::(Shape|Config|Position|MemoryLimit)Error(::|$)'
}

tags_of() { nm -C "$1" | grep -oE 'posenc::v[0-9]+_[0-9]+_[a-z][a-z0-9_]*' | sort -u; }

read -ra eigen <<<"${EIGEN_FLAGS:-$(pkg-config --cflags eigen3)}"
objects=() commands=()
for compiler in "${compilers[@]}"; do
  for optimisation in "${optimisations[@]}"; do
    for level in "${levels[@]}"; do
      name="unit_${#objects[@]}"
      commands+=("$(printf '%q ' "$compiler" -std=c++20 "$optimisation" -march="$level" -w -DUNIT="$name" \
        -I "$here/../../../include" "${eigen[@]}" -c "$here/unit.cpp" -o "$work/$name.o")")
      objects+=("$compiler $optimisation $level")
    done
  done
done
printf '%s\0' "${commands[@]}" | xargs -0 -n 1 -P "$(nproc)" bash -c

declare -A owner_of=()
for i in "${!objects[@]}"; do
  read -r compiler optimisation level <<<"${objects[i]}"
  if shared_by_mistake "$work/unit_$i.o"; then
    echo "these are shared by units with other flags than $compiler $optimisation -march=$level"; exit 1
  fi
  tag="$(tags_of "$work/unit_$i.o")"
  if [[ "$tag" == *$'\n'* || "${owner_of["$tag"]:="$compiler $level"}" != "$compiler $level" ]]; then
    echo "$compiler -march=$level gives the tag '$tag', which ${owner_of["$tag"]:-nobody} has"; exit 1
  fi
done

# Runs every pair with different levels or compilers, in both orders, unless a third property
# differs as well.
failed=0 programs=0
for ((i = 0; i < ${#objects[@]}; ++i)); do
  for ((j = 0; j < ${#objects[@]}; ++j)); do
    read -r compiler optimisation level <<<"${objects[i]}"
    read -r other_compiler other_optimisation other_level <<<"${objects[j]}"
    [[ "$level" != "$other_level" || "$compiler" != "$other_compiler" ]] || continue
    [[ "$level" == "$other_level" || "$compiler" == "$other_compiler" || "$optimisation" == "$other_optimisation" ]] || continue
    program="$work/program"
    "${compilers[0]}" -O0 -std=c++20 -DFIRST="unit_$i" -DSECOND="unit_$j" "$here/main.cpp" "$work/unit_$i.o" "$work/unit_$j.o" \
      -o "$program"
    programs=$((programs + 1))
    "$program" || { echo "failed: ${objects[i]} linked before ${objects[j]}"; failed=$((failed + 1)); }
  done
done
echo "$programs programs of ${#objects[@]} units, $failed failed"
((failed == 0))
