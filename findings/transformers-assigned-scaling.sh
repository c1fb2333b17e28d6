#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: transformers 5.24.0, its configurations (no PyTorch).
# Guess:   `config.rope_scaling = {...}` on a loaded config changes the scaling and keeps the base.
# Seen:    the base becomes None. `config.rope_theta = ...` is stored and has no effect on the rotation's base.
# Matters: scripts that extend a context by assignment write configs without a base, or with the old one.
. "$(dirname "$0")/common.sh"

python_packages transformers==5.24.0 numpy==2.4.6
python_program 2>/dev/null <<'PY'
import transformers

print("transformers", transformers.__version__)
config = transformers.LlamaConfig(rope_theta=500000.0)
config.rope_scaling = dict(rope_type="linear", factor=4.0)
print("rope_scaling assigned:", config.rope_parameters)
config = transformers.LlamaConfig(rope_theta=500000.0)
config.rope_theta = 1000000.0
print("rope_theta assigned:  ", config.rope_parameters)
PY
expect <<'OUT'
transformers 5.24.0
rope_scaling assigned: {'rope_type': 'linear', 'factor': 4.0, 'rope_theta': None}
rope_theta assigned:   {'rope_theta': 500000.0, 'rope_type': 'default'}
OUT
