#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds and runs programs against posenc in each of the ways that its pages show, by their own lines, word for word:
# tests/consumers/run.sh <directory to build in>
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source_dir="$(cd "$here/../.." && pwd)"
mkdir -p "$1"
work="$(mktemp --directory "$(cd "$1" && pwd)/consumers.XXXXXX")"
trap 'rm -rf "$work"' EXIT
compiler="${CXX:-c++}"

# PATH with the tools of install-deps.sh only, without make, and a separate home directory.
mkdir "$work/bin" "$work/no_ninja" "$work/home"
for program in bash sh cmake "$compiler" gcc git as ld ar ranlib sed grep; do
  ln -sf "$(command -v "$program")" "$work/bin/"
done
cp -P "$work/bin/"* "$work/no_ninja/"
if command -v make >/dev/null; then ln -s "$(command -v make)" "$work/no_ninja/"; fi
ln -s "$(command -v ninja)" "$(command -v pkg-config)" "$work/bin/"
bare() { env -i PATH="$work/bin" HOME="$work/home" ${CXX:+CXX="$CXX"} "$@"; }

# The fenced blocks of a page, a file each.
extract_blocks() {
  mkdir -p "$work/blocks/$1"
  awk -v out="$work/blocks/$1" '
    /^```/ { if (inside) { close(file) } else { file = out "/" ++n "." substr($0, 4) } inside = !inside; next }
    inside { print > file }' "$source_dir/$1"
}
pages=(cmake/README.md examples/guide/model_files.md)
for page in README.md "${pages[@]}"; do extract_blocks "$page"; done

# block <language> <text> [<page>...]: prints the only block of this language that holds the text; of `pages` if none is named.
block() {
  local language="$1" text="$2" found
  shift 2
  if ((!$#)); then set -- "${pages[@]}"; fi
  found="$(cd "$work/blocks" && grep --recursive --files-with-matches --fixed-strings --include="*.$language" -e "$text" "$@")" &&
    [[ "$found" != *$'\n'* ]] || { echo "$* must show exactly one block of $language with '$text'" >&2; return 1; }
  cat "$work/blocks/$found"
}

# run_block <folder> <text>: runs the sh block that contains this text, in the folder.
run_block() {
  local lines
  lines="$(block sh "$2")"
  (cd "$1" && bare bash -euo pipefail -c "$lines") >"$work/log" 2>&1 || { echo "$lines"; cat "$work/log"; return 1; } >&2
}

# The repository that the pages' lines install, add or fetch.
"$source_dir/tests/support/copy_repository.sh" "$work/posenc"

# project <name> <program's folder> <line for CMakeLists.txt>...
project() {
  local name="$1" program="$2"
  shift 2
  mkdir -p "$work/$name/third_party"
  cp "$here/$program/"*.cpp "$work/$name/"
  ln -s "$work/posenc" "$work/$name/third_party/posenc"
  {
    printf 'cmake_minimum_required(VERSION 3.23)\nproject(app LANGUAGES CXX)\n'
    printf 'file(GLOB sources CONFIGURE_DEPENDS *.cpp)\nadd_executable(app ${sources})\n'
    printf '%s\n' "$@"
    printf 'include("%s/check_target.cmake")\n' "$here"
  } >"$work/$name/CMakeLists.txt"
}

# consume <name>: builds the project by the line of cmake/README.md and runs it.
consume() {
  echo "-- $1"
  run_block "$work/$1" '&& cmake --build build'
  "$work/$1/build/app"
}

link="$(block cmake 'target_link_libraries(app PRIVATE posenc::posenc)')"
link_core='target_link_libraries(app PRIVATE posenc::core)'
no_eigen='set(CMAKE_DISABLE_FIND_PACKAGE_Eigen3 ON)
set(FETCHCONTENT_FULLY_DISCONNECTED ON)'

# An installed tree must still work after it is moved.
echo "-- installation"
run_block "$work/posenc" 'cmake --install build/install'
mkdir "$work/moved"
mv "$work/home/.local" "$work/moved/"
rmdir "$work/home"
mv "$work/moved" "$work/home"
project find_package app "$(block cmake 'find_package(posenc 0.3 REQUIRED)')" "$link"
consume find_package
project find_package_core without_eigen "$no_eigen" "$(block cmake 'COMPONENTS core')"
consume find_package_core

# Model files need neither Eigen nor nlohmann-json. posenc::interop was the target for them in 0.2.0.
no_json='set(CMAKE_DISABLE_FIND_PACKAGE_nlohmann_json ON)'
project find_package_model_files model_files "$no_eigen" "$no_json" "$(block cmake 'COMPONENTS core')"
consume find_package_model_files
project find_package_interop model_files "$no_eigen" "$no_json" \
  'find_package(posenc 0.3 REQUIRED COMPONENTS interop)' 'target_link_libraries(app PRIVATE posenc::interop)'
consume find_package_interop
grep --quiet 'link posenc::core' "$work/log" || { echo "posenc::interop is not marked deprecated" >&2; exit 1; }

# The library of instantiations, here without optimisation to save time. A unit with other flags must not link.
echo "-- installation of posenc::compiled"
lines="$(block sh POSENC_BUILD_COMPILED)"
(cd "$work/posenc" && bare bash -euo pipefail -c "${lines//Release/Debug}") >"$work/log" 2>&1 || { cat "$work/log"; exit 1; } >&2
project compiled compiled "$(block cmake 'COMPONENTS compiled')"
consume compiled
echo "-- posenc::compiled, with other flags"
project compiled_checked compiled 'add_compile_definitions(POSENC_CHECKED=1)' "$(block cmake 'COMPONENTS compiled')"
if bare cmake -S "$work/compiled_checked" -B "$work/compiled_checked/build" -G Ninja -D CMAKE_PREFIX_PATH="$work/home/.local" \
  >"$work/log" 2>&1 &&
  bare cmake --build "$work/compiled_checked/build" >"$work/log" 2>&1; then
  echo "a unit with checks has linked with a posenc::compiled without" >&2
  exit 1
fi
grep --quiet 'undefined reference.*_checked_' "$work/log" || { cat "$work/log"; exit 1; }

project add_subdirectory app "$(block cmake 'add_subdirectory(')" "$link"
consume add_subdirectory
project add_subdirectory_core without_eigen "$no_eigen" 'set(POSENC_WITH_EIGEN OFF)' "$(block cmake 'add_subdirectory(')" "$link_core"
consume add_subdirectory_core
# The lines of the front page are those of cmake/README.md.
fetch="$(block cmake FetchContent_MakeAvailable README.md)"
[[ "$fetch" == *'<path or url of your copy of posenc>'* ]] || { echo "README.md: no <path or url of your copy of posenc>" >&2; exit 1; }
[[ "$fetch" == "$(block cmake FetchContent_MakeAvailable)"$'\n'"$link" ]] ||
  { echo "README.md and cmake/README.md differ in how they fetch posenc" >&2; exit 1; }
project fetch_content app "${fetch/<path or url of your copy of posenc>/"file://$work/posenc"}"
consume fetch_content

# Eigen by download instead of by package. FETCHCONTENT_SOURCE_DIR_EIGEN replaces the network.
read -r eigen <<<"$(pkg-config --cflags-only-I eigen3)"
project fetched_eigen app 'set(CMAKE_DISABLE_FIND_PACKAGE_Eigen3 ON)' "set(FETCHCONTENT_SOURCE_DIR_EIGEN \"${eigen#-I}\")" \
  "$(block cmake 'add_subdirectory(')" "$link"
consume fetched_eigen

# One unit, as the lines without CMake name one.
echo "-- without CMake"
cat "$here"/app/*.cpp >"$work/posenc/app.cpp"
run_block "$work/posenc" '-I include $(pkg-config'
"$work/posenc/a.out"

echo "-- pkg-config"
mkdir "$work/pkg-config"
cp "$work/posenc/app.cpp" "$work/pkg-config/"
run_block "$work/pkg-config" 'pkg-config --cflags posenc)'
"$work/pkg-config/a.out"
flags="$(PKG_CONFIG_PATH="$work/home/.local/share/pkgconfig" pkg-config --cflags posenc)"
[[ " $flags " == *" -isystem "* ]] || { echo "Eigen is no system path in $flags" >&2; exit 1; }

# Installation without Eigen.
cmake -S "$work/posenc" -B "$work/core" -G Ninja -D POSENC_WITH_EIGEN=OFF -D CMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON \
  -D FETCHCONTENT_FULLY_DISCONNECTED=ON --no-warn-unused-cli >/dev/null
cmake --install "$work/core" --prefix "$work/core_only" >/dev/null
echo "-- pkg-config without Eigen"
read -ra flags <<<"$(PKG_CONFIG_PATH="$work/core_only/share/pkgconfig" pkg-config --cflags posenc-core)"
[[ "${#flags[@]}" == 1 ]] || { echo "posenc-core.pc has more than one flag: ${flags[*]}" >&2; exit 1; }
"$compiler" -std=c++20 "${flags[@]}" "$here/without_eigen/main.cpp" -o "$work/app"
"$work/app"

echo "-- posenc_inspect"
run_block "$work/posenc" '--target posenc_inspect'
grep --quiet 'Llama3Scaling: base 500000' "$work/log" || { cat "$work/log"; exit 1; }
block text 'Llama3Scaling: base 500000' | while IFS= read -r line; do
  # A page may end a long line by an ellipsis.
  awk -v line="$line" 'BEGIN { cut = sub(/ \.\.\.$/, "", line) } $0 == line || (cut && index($0, line) == 1) { found = 1 }
    END { exit !found }' "$work/log" || { echo "posenc_inspect does not say: $line" >&2; exit 1; }
done

# CMake must name a missing dependency and its remedy before any other message.
says() {
  local name="$1" expected="$2"
  shift 2
  echo "-- $name"
  "$@" >"$work/log" 2>&1 && { echo "$name: no error" >&2; return 1; }
  grep --quiet "$expected" "$work/log" || { cat "$work/log"; return 1; }
}
says "no ninja" "presets build with Ninja, which is not installed" \
  env PATH="$work/no_ninja" cmake -S "$source_dir" -B "$work/no-ninja" -G Ninja
says "no Eigen, no network" "posenc: Eigen is not installed.*Without network, install it" \
  env GIT_ALLOW_PROTOCOL=file cmake -S "$source_dir" -B "$work/no-eigen" -G Ninja \
  -D CMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON -D POSENC_BUILD_TESTS=OFF -D POSENC_BUILD_BENCH=OFF -D POSENC_BUILD_EXAMPLES=OFF
says "no Eigen for an installed posenc::posenc" "which was not found. *posenc::core" \
  cmake -S "$work/find_package" -B "$work/no-eigen-found" -G Ninja -D CMAKE_PREFIX_PATH="$work/home/.local" \
  -D CMAKE_DISABLE_FIND_PACKAGE_Eigen3=ON
says "posenc::posenc was not installed" "posenc::posenc is not installed" \
  cmake -S "$work/find_package" -B "$work/core-found" -G Ninja -D CMAKE_PREFIX_PATH="$work/core_only"
says "tests without Eigen" "tests, benchmarks and examples need Eigen" \
  cmake -S "$work/posenc" -B "$work/core-tests" -G Ninja -D POSENC_WITH_EIGEN=OFF -D POSENC_BUILD_TESTS=ON
