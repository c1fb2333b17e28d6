# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by every finding: a temporary folder that is removed at exit, installers of pinned packages, the comparison.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
export PYTHONPATH="$here" PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore JAX_PLATFORMS=cpu

# python_packages [OPTION] NAME==VERSION...: installs packages into a virtual environment
python_packages() {
  [[ -d "$work/venv" ]] || python3 -m venv --without-pip "$work/venv"
  python3 -m pip --python "$work/venv/bin/python" install --quiet --no-compile --disable-pip-version-check "$@"
}

# npm_packages NAME@VERSION...: installs packages into $work/node_modules
npm_packages() { npm install --prefix "$work" --silent --no-audit --no-fund "$@" >"$work/npm.log"; }

# python_program: runs the program on standard input, and keeps what it prints
python_program() { (cd "$work" && venv/bin/python - >seen); }

# expect: prints what was kept, and fails unless it equals standard input
expect() {
  cat "$work/seen"
  if ! diff - "$work/seen" >"$work/difference"; then
    echo "The behaviour is not the recorded one (<: recorded, >: seen):" >&2
    cat "$work/difference" >&2
    exit 1
  fi
}
