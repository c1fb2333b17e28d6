#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Renews the recordings, or compares one architecture with them.
#
#   record.sh                     records every architecture into recordings/. Some five minutes on two idle cores
#   record.sh --check [NAME...]   records these architectures, or one that changes with the day, and compares
#
# Exits with 77 if the package cannot be had.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

package=@node-llama-cpp/linux-x64@3.22.1 release="llama.cpp v0.5.0"
check=0 chosen=()
if [[ "${1:-}" == --check ]]; then
  check=1 chosen=("${@:2}")
  if ((${#chosen[@]} == 0)); then
    source ../../support/one_in.sh
    mapfile -t names < <(grep -v '^#' recordings/architectures.tsv | cut -f1)
    chosen=($(printf '%s\n' "${names[@]}" | one_in ${#names[@]}))
  fi
fi

folder="$(mktemp -d)"
trap 'rm -rf "$folder"' EXIT
for program in npm python3 "${CXX:=g++}"; do
  command -v "$program" >/dev/null || { echo "skipped: no $program"; exit 77; }
done
[[ "$(uname -sm)" == "Linux x86_64" ]] || { echo "skipped: the package is for Linux on x86-64"; exit 77; }
npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$folder" "$package" >/dev/null 2>&1 ||
  { echo "skipped: npm has no answer for $package"; exit 77; }
"$CXX" -std=c++20 -O1 -rdynamic record.cpp -o "$folder/record" -ldl
out=recordings
((check)) && out="$folder/recordings"
python3 record.py "$folder/record" "$folder/node_modules/@node-llama-cpp/linux-x64/bins/linux-x64" "$release" "$out" \
  "${chosen[@]}" 2>"$folder/messages" || { tail -5 "$folder/messages"; exit 1; }
((!check)) || python3 compare.py recordings "$out"
