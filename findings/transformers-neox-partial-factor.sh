#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: transformers 5.24.0, its configurations (no PyTorch).
# Guess:   partial_rotary_factor, the key of this release, sets the rotated part in every configuration that has one.
# Seen:    GPTNeoXConfig stores it and rotates a quarter all the same: only its old name rotary_pct is read.
#          LlamaConfig reads it.
# Matters: the rotated width of such a file is 0.25 of the head, not what the file seems to say.
. "$(dirname "$0")/common.sh"

python_packages transformers==5.24.0 numpy==2.4.6
python_program 2>/dev/null <<'PY'
import transformers

print("transformers", transformers.__version__)
for name, options in (("GPTNeoXConfig", dict(partial_rotary_factor=0.5)), ("GPTNeoXConfig", dict(rotary_pct=0.5)), ("LlamaConfig", dict(partial_rotary_factor=0.5))):
    config = getattr(transformers, name)(**options)
    print(name, options, "rotates", config.rope_parameters["partial_rotary_factor"])
PY
expect <<'OUT'
transformers 5.24.0
GPTNeoXConfig {'partial_rotary_factor': 0.5} rotates 0.25
GPTNeoXConfig {'rotary_pct': 0.5} rotates 0.5
LlamaConfig {'partial_rotary_factor': 0.5} rotates 0.5
OUT
