#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: transformers 5.24.0, its configurations (no PyTorch).
# Guess:   partial_rotary_factor, the key of this release, sets the rotated part.
# Seen:    GPTNeoXConfig stores it and rotates a quarter all the same: only its old name rotary_pct is read.
#          The model's rotary module follows rope_parameters, so it builds frequencies for that quarter.
# Matters: the rotated width of such a file is 0.25 of the head, not what the file seems to say.
. "$(dirname "$0")/common.sh"

python_packages transformers==5.24.0 numpy==2.4.6
python_program 2>/dev/null <<'PY'
import transformers

print("transformers", transformers.__version__)
for options in (dict(partial_rotary_factor=0.5), dict(rotary_pct=0.5)):
    print("GPTNeoXConfig", options, "rotates", transformers.GPTNeoXConfig(**options).rope_parameters["partial_rotary_factor"])
PY
expect <<'OUT'
transformers 5.24.0
GPTNeoXConfig {'partial_rotary_factor': 0.5} rotates 0.25
GPTNeoXConfig {'rotary_pct': 0.5} rotates 0.5
OUT
