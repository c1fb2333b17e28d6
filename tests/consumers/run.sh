#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds and runs a program against posenc in each of the ways into a project:
# tests/consumers/run.sh <directory to build in>
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source_dir="$(cd "$here/../.." && pwd)"
mkdir -p "$1"
work="$(mktemp --directory "$(cd "$1" && pwd)/consumers.XXXXXX")"
trap 'rm -rf "$work"' EXIT

# consume <name> <project> [<cmake argument>...]
consume() {
  local name="$1" project="$2"
  shift 2
  echo "-- $name"
  cmake -S "$here/$project" -B "$work/$name" -G Ninja "$@" >"$work/log" || { cat "$work/log"; return 1; }
  cmake --build "$work/$name" >"$work/log" || { cat "$work/log"; return 1; }
  "$work/$name/app"
}

consume add_subdirectory add_subdirectory -D POSENC_SOURCE_DIR="$source_dir"
consume fetch_content fetch_content -D POSENC_SOURCE_DIR="$source_dir"

# Eigen by download instead of by package: FETCHCONTENT_SOURCE_DIR_EIGEN stands in for the network.
read -r eigen <<<"$(pkg-config --cflags-only-I eigen3)"
consume fetched_eigen fetch_content -D POSENC_SOURCE_DIR="$source_dir" \
  -D CMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON -D FETCHCONTENT_SOURCE_DIR_EIGEN="${eigen#-I}"

# An installed tree must still work after it was moved.
cmake -S "$source_dir" -B "$work/install" -G Ninja \
  -D POSENC_BUILD_TESTS=OFF -D POSENC_BUILD_BENCH=OFF -D POSENC_BUILD_EXAMPLES=OFF >/dev/null
cmake --install "$work/install" --prefix "$work/before" >/dev/null
mv "$work/before" "$work/prefix"
consume find_package find_package -D CMAKE_PREFIX_PATH="$work/prefix"

echo "-- pkg-config"
read -ra flags <<<"$(PKG_CONFIG_PATH="$work/prefix/share/pkgconfig" pkg-config --cflags posenc)"
[[ " ${flags[*]} " == *" -isystem "* ]] || { echo "Eigen is no system path in ${flags[*]}" >&2; exit 1; }
"${CXX:-c++}" -std=c++20 "${flags[@]}" "$here"/app/*.cpp -o "$work/app"
"$work/app"

# What is missing is named, with what to do, before anything else is said.
says() {
  local name="$1" expected="$2"
  shift 2
  echo "-- $name"
  "$@" >"$work/log" 2>&1 && { echo "$name: no error" >&2; return 1; }
  grep --quiet "$expected" "$work/log" || { cat "$work/log"; return 1; }
}
mkdir "$work/bin"
for program in bash cmake c++ gcc git ld as sed grep make; do
  ln -s "$(command -v "$program")" "$work/bin/"
done
says "no ninja" "presets build with Ninja, which is not installed" \
  env PATH="$work/bin" cmake -S "$source_dir" -B "$work/no-ninja" -G Ninja
says "no Eigen, no network" "posenc: Eigen is not installed.*Without network, install it" \
  env GIT_ALLOW_PROTOCOL=file cmake -S "$source_dir" -B "$work/no-eigen" -G Ninja \
  -D CMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON -D POSENC_BUILD_TESTS=OFF -D POSENC_BUILD_BENCH=OFF -D POSENC_BUILD_EXAMPLES=OFF
