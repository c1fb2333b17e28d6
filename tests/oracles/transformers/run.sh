#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Renews recordings.jsonl from a clean machine: installs the releases of versions.json into a virtual environment, and
# runs record.py there. Needs python3, pip, 10 GB of disk, and half an hour of one core.
#
#     run.sh                    all types, into recordings.jsonl
#     run.sh OUT.jsonl TYPE...  some types
#
# POSENC_RECORDING=FOLDER keeps the environment and the lines that are done, so that a run that was interrupted goes on.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
if [ -n "${POSENC_RECORDING:-}" ]; then
  folder="$POSENC_RECORDING"
  mkdir -p "$folder"
else
  folder="$(mktemp -d)"
  trap 'rm -rf "$folder"' EXIT
fi
python="$folder/venv/bin/python"
version() { "$python" -c "import json, sys; print(json.load(open(sys.argv[1]))[sys.argv[2]])" "$here/versions.json" "$1"; }
[ -x "$python" ] || python3 -m venv "$folder/venv"
"$python" -m pip install --quiet "transformers==$(version transformers)" "torch==$(version torch)"
OMP_NUM_THREADS=1 nice "$python" "$here/record.py" "$folder/out.jsonl" "${@:2}"
cp "$folder/out.jsonl" "${1:-$here/recordings.jsonl}"
