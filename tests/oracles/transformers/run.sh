#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Renews recordings.jsonl from a clean machine: installs the releases of versions.json into a virtual environment of a
# temporary folder, and runs record.py there. Needs python3, pip, 10 GB of disk, and an hour of one core.
#
#     run.sh                    all types, into recordings.jsonl
#     run.sh OUT.jsonl TYPE...  some types
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
temporary="$(mktemp -d)"
trap 'rm -rf "$temporary"' EXIT
python3 -m venv "$temporary/venv"
python="$temporary/venv/bin/python"
version() { "$python" -c "import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])" "$here/versions.json" "$1"; }
"$python" -m pip install --quiet "transformers==$(version transformers)" "torch==$(version torch)"
out="${1:-$here/recordings.jsonl}"
"$python" "$here/record.py" "$temporary/out.jsonl" "${@:2}"
cp "$temporary/out.jsonl" "$out"
