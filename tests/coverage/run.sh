#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Measures which lines and branches of include/ the tests run, folder by folder, with clang++ and llvm-cov:
#
#   tests/coverage/run.sh <build folder> [<target>...]    by default all tests; targets name some, as test_rotary
#
# Writes <build folder>/coverage/folders.csv (folder, lines, covered lines, branches, covered branches), and uncovered.txt, which
# lists each line that no test runs. Takes some 40 minutes on two cores. Code that only other processors compile counts as
# absent, not as uncovered.
set -euo pipefail

(($# >= 1)) || { echo "usage: tests/coverage/run.sh <build folder> [<target>...]" >&2; exit 2; }
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source_dir="$(cd "$here/../.." && pwd)"
mkdir -p "$1"
build="$(cd "$1" && pwd)/coverage"
shift
targets=("$@")

# tool <name>: Debian names LLVM's tools with their version, which must be the compiler's.
tool() {
  local version
  version="$(clang++ -dumpversion)"
  command -v "$1-${version%%.*}" || command -v "$1" || { echo "run.sh: there is no $1; install llvm" >&2; exit 1; }
}
profdata="$(tool llvm-profdata)" cov="$(tool llvm-cov)"

# Precompiled headers count as system headers, and clang leaves the coverage of those out.
cmake -S "$source_dir" --preset test -B "$build" -D CMAKE_CXX_COMPILER=clang++ -D POSENC_NATIVE=ON -D POSENC_WERROR=OFF -D POSENC_BUILD_EXAMPLES=OFF \
  -D CMAKE_DISABLE_PRECOMPILE_HEADERS=ON \
  -D CMAKE_CXX_FLAGS_DEBUG="-O0 -fprofile-instr-generate -fcoverage-mapping" >"$build.log"
cmake --build "$build" ${targets[0]:+--target "${targets[@]}"}

# Programs merge what they count into a file each, so that thousands of runs need little space.
rm -rf "$build/profiles"
export LLVM_PROFILE_FILE="$build/profiles/%2m.profraw"
if ((${#targets[@]} > 0)); then
  for target in "${targets[@]}"; do "$build/tests/$target" >"$build.log" || { cat "$build.log" >&2; exit 1; }; done
else
  ctest --test-dir "$build" --parallel 2 --output-on-failure --label-exclude examples
fi
"$profdata" merge -sparse -o "$build/all.profdata" "$build"/profiles/*.profraw

objects=()
while IFS= read -r program; do objects+=(-object "$program"); done < <(
  if ((${#targets[@]} > 0)); then printf '%s\n' "${targets[@]/#/$build/tests/}"
  else find "$build/tests" -maxdepth 1 -type f -executable -name 'test_*' | LC_ALL=C sort; fi)
export_as() { "$cov" export "${objects[@]:1}" -instr-profile "$build/all.profdata" -format="$1" "${@:2}" "$source_dir/include"; }
export_as lcov >"$build/all.lcov"
export_as text -skip-functions >"$build/all.json"
python3 "$here/folders.py" "$build/all.lcov" "$build/all.json" "$source_dir/include/posenc" "$build"
