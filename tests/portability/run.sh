#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Compiles every public header, without generating code, where posenc is never run: for Windows with its macros
# in force (mingw), and with libc++, the library of macOS; and what AMX makes of a call. tests/portability/run.sh; what is
# not installed is skipped by name.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
source_dir="$(cd "$here/../.." && pwd)"
read -r eigen <<<"$(pkg-config --cflags-only-I eigen3)"
flags=(-std=c++20 -fsyntax-only -Wall -Wextra -I "$source_dir/include" -isystem "${eigen#-I}")

# nlohmann-json's headers serve every target, but the folder they are installed in does not.
json="$(mktemp --directory)"
trap 'rm -rf "$json"' EXIT
[[ -d /usr/include/nlohmann ]] && ln -s /usr/include/nlohmann "$json/nlohmann" && flags+=(-isystem "$json")

# [source=<file>] compile <name> <compiler and flags>...
compile() {
  local name="$1" source="${source:-all_headers.cpp}"
  shift
  command -v "$1" >/dev/null || { echo "-- $name: skipped, there is no $1"; return 0; }
  echo "-- $name"
  "$@" "${flags[@]}" "$here/$source"
}

compile "Windows (mingw)" x86_64-w64-mingw32-g++-posix -Werror -Wno-unknown-pragmas
compile "Windows (mingw), AVX-512" x86_64-w64-mingw32-g++-posix -march=x86-64-v4
compile "libc++" clang++ -stdlib=libc++ -Werror
if [[ "$(uname -sm)" == "Linux x86_64" ]]; then
  source=amx.cpp compile "AMX" g++ -march=sapphirerapids
  source=amx.cpp compile "AMX" clang++ -march=sapphirerapids -Werror
fi
