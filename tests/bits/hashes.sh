#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Writes tests/bits/HASHES from the headers of this tree. Renew it only if bits change on purpose, and say in CHANGELOG.md
# which and why, with the checksum that this script prints: a test compares it.
#
#   tests/bits/hashes.sh [<file>]
#
# It needs a processor with AVX-512 and, for NEON, qemu with a cross compiler: cmake/install-deps.sh ci
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
file="${1:-$here/HASHES}"
read -r eigen <<<"$(pkg-config --cflags-only-I eigen3 2>/dev/null || echo -I/usr/include/eigen3)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# hash_tier <tier> <compiler> <flags>...: writes lines "<case> <tier>=<hash>" to $work/<tier>.txt.
run=()
hash_tier() {
  local tier="$1" compiler="$2"
  shift 2
  "$compiler" -std=c++20 "$@" "-isystem${eigen#-I}" -I "$here/../../include" "$here"/*.cpp -o "$work/bits" -pthread
  "${run[@]}" "$work/bits" | sed "s/ / $tier=/" >"$work/$tier.txt"
}
hash_tier avx2 g++ -march=x86-64-v3
hash_tier avx512 g++ -march=x86-64-v4
run=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
hash_tier neon aarch64-linux-gnu-g++ -march=armv8-a

{
  sed -n '/^#/p' "$here/HASHES"
  # One hash where all tiers agree.
  LC_ALL=C sort --stable --key=1,1 "$work"/{avx2,avx512,neon}.txt | awk '
    function flush() { if (name != "") print name, (same && count == 3 ? first : all) }
    {
      hash = $2
      sub(/.*=/, "", hash)
      if ($1 != name) { flush(); name = $1; first = hash; all = $2; same = 1; count = 1; next }
      all = all " " $2
      ++count
      if (hash != first) same = 0
    }
    END { flush() }'
} >"$work/HASHES"
mv "$work/HASHES" "$file"
echo "checksum for CHANGELOG.md: $(sha256sum "$file" | cut --characters=1-12)"
