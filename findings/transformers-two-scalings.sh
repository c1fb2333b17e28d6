#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: transformers 5.24.0, its configurations (no PyTorch).
# Guess:   if a config carries the new rope_parameters and the old rope_theta and rope_scaling, the new one wins, or
#          a conflict is an error.
# Seen:    rope_scaling replaces rope_parameters, and takes the old rope_theta with it. rope_theta alone loses against
#          rope_parameters. So which base holds depends on whether a third key is present.
# Matters: a reader of config.json has to repeat both orders, or reject such files.
. "$(dirname "$0")/common.sh"

python_packages transformers==5.24.0 numpy==2.4.6
python_program 2>/dev/null <<'PY'
import transformers

print("transformers", transformers.__version__)
new = lambda: dict(rope_type="default", rope_theta=10000.0)
print("rope_theta 500000:                   ", transformers.LlamaConfig(rope_parameters=new(), rope_theta=500000.0).rope_parameters)
old = dict(rope_type="linear", factor=4.0)
print("rope_theta 500000, rope_scaling x 4: ", transformers.LlamaConfig(rope_parameters=new(), rope_theta=500000.0, rope_scaling=old).rope_parameters)
PY
expect <<'OUT'
transformers 5.24.0
rope_theta 500000:                    {'rope_type': 'default', 'rope_theta': 10000.0}
rope_theta 500000, rope_scaling x 4:  {'rope_type': 'linear', 'factor': 4.0, 'rope_theta': 500000.0}
OUT
