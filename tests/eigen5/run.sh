#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds posenc with Eigen 5 as CMake finds it: a sample of the tests (tensors, threads, rotation, the module, bits), the tour,
# and a consumer of the installed package.
#
#   tests/eigen5/run.sh <directory to build in>
#
# Eigen 5 is the first of: the folder in POSENC_EIGEN5_DIR, either Eigen's sources or an installation; a checkout
# ../eigen-5* beside the project; a package that CMake finds. Without any of them the test is skipped.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source_dir="$(cd "$here/../.." && pwd)"
mkdir -p "$1"
build="$(cd "$1" && pwd)"
work="$(mktemp --directory "$build/eigen5.XXXXXX")"
trap 'rm -rf "$work"' EXIT

quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }; }

# install_sources <Eigen's sources>: installs its headers and its CMake package into a permanent
# folder, so that nothing is rebuilt. Eigen would register its build folder in the user's package
# registry, where every project finds it.
install_sources() {
  quietly cmake -S "$1" -B "$work/eigen-build" -G Ninja -D CMAKE_EXPORT_NO_PACKAGE_REGISTRY=ON -D EIGEN_BUILD_TESTING=OFF \
    -D BUILD_TESTING=OFF -D EIGEN_BUILD_DOC=OFF -D EIGEN_BUILD_DEMOS=OFF -D EIGEN_BUILD_BLAS=OFF -D EIGEN_BUILD_LAPACK=OFF
  quietly cmake --install "$work/eigen-build" --prefix "$build/eigen5-installed"
}

# find_package <cmake argument>...: sets eigen5_dir to the folder of the CMake package, or to nothing.
find_package() {
  quietly cmake -S "$here" -B "$work/find" -G Ninja -D CMAKE_FIND_USE_PACKAGE_REGISTRY=OFF "$@"
  eigen5_dir="$(<"$work/find/eigen5_dir.txt")"
}

folder="${POSENC_EIGEN5_DIR:-}"
if [[ -z "$folder" ]]; then
  for candidate in "$source_dir"/../eigen-5*; do
    if [[ -f "$candidate/Eigen/Core" ]]; then folder="$candidate"; fi
  done
fi
if [[ -z "$folder" ]]; then
  find_package
  if [[ -z "$eigen5_dir" ]]; then
    echo "-- skipped: there is no Eigen 5. Name its sources, or where it is installed, with POSENC_EIGEN5_DIR=<folder>," \
      "or put a checkout beside the project: git clone --branch 5.0.1 https://gitlab.com/libeigen/eigen.git ../eigen-5.0.1"
    exit 0
  fi
else
  if [[ -f "$folder/Eigen/Core" && -f "$folder/CMakeLists.txt" ]]; then
    install_sources "$folder"
    folder="$build/eigen5-installed"
  fi
  find_package -D EIGEN5_PREFIX="$folder"
  [[ -n "$eigen5_dir" ]] || { echo "$folder holds no Eigen 5" >&2; exit 1; }
fi
echo "-- Eigen 5 in $eigen5_dir"

tests=(test_tensor test_threads posenc_tour)
[[ "$(uname -m)" == x86_64 ]] && tests+=(posenc_bits_avx2)
quietly cmake --preset test -S "$source_dir" -B "$build/eigen5" -D Eigen3_DIR="$eigen5_dir" \
  -D POSENC_CI_TESTS=ON -D POSENC_BUILD_EXAMPLES=ON
cmake --build "$build/eigen5" --target "${tests[@]}"
"$build/eigen5/tests/test_tensor"
"$build/eigen5/tests/test_threads" 2>&1 | tee "$work/output"
grep --quiet 'Eigen 5' "$work/output" || { echo "the tests were compiled with another Eigen" >&2; exit 1; }
if [[ "$(uname -m)" == x86_64 ]]; then
  "$build/eigen5/tests/posenc_bits_avx2" "$source_dir/tests/bits/HASHES" || [[ $? == 77 ]]  # 77: no AVX2
fi

echo "-- find_package(posenc), with Eigen 5"
quietly cmake -S "$source_dir" -B "$work/posenc" -G Ninja -D Eigen3_DIR="$eigen5_dir" \
  -D POSENC_BUILD_TESTS=OFF -D POSENC_BUILD_BENCH=OFF -D POSENC_BUILD_EXAMPLES=OFF
quietly cmake --install "$work/posenc" --prefix "$work/prefix"
quietly cmake -S "$source_dir/tests/consumers/find_package" -B "$work/consumer" -G Ninja \
  -D CMAKE_PREFIX_PATH="$work/prefix" -D Eigen3_DIR="$eigen5_dir"
quietly cmake --build "$work/consumer"
"$work/consumer/app" | grep 'Eigen 5'
