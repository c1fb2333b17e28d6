#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes a git repository of the files that would be committed now: tests/support/copy_repository.sh <new directory>
set -euo pipefail

source_dir="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
mkdir "$1"
git -C "$source_dir" ls-files -z --cached --others --exclude-standard |
  (cd "$source_dir" && while IFS= read -r -d '' file; do if [[ -e "$file" ]]; then printf '%s\0' "$file"; fi; done) |
  tar --directory "$source_dir" --null --files-from - --create | tar --directory "$1" --extract
git -C "$1" init --quiet --initial-branch main
git -C "$1" add --all
git -C "$1" -c user.name=posenc -c user.email=posenc@localhost commit --quiet --message copy
