#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: transformers 5.24.0, its configurations (no PyTorch).
# Guess:   rope_parameters without layer types, {"rope_type": "linear", "factor": 8}, scale Gemma 3's global layers, as
#          the same keys in rope_scaling do, or are rejected.
# Seen:    they are kept beside the layer types and have no effect: both kinds of layers are unscaled.
# Matters: a file rewritten from rope_scaling to rope_parameters loses the factor. It belongs under full_attention.
. "$(dirname "$0")/common.sh"

python_packages transformers==5.24.0 numpy==2.4.6
python_program 2>/dev/null <<'PY'
import transformers

print("transformers", transformers.__version__)
for key in ("rope_scaling", "rope_parameters"):
    config = transformers.Gemma3TextConfig(**{key: dict(rope_type="linear", factor=8.0)})
    for layer in ("full_attention", "sliding_attention"):
        print(key, layer, config.rope_parameters[layer]["rope_type"], config.rope_parameters[layer].get("factor"))
PY
expect <<'OUT'
transformers 5.24.0
rope_scaling full_attention linear 8.0
rope_scaling sliding_attention default None
rope_parameters full_attention default None
rope_parameters sliding_attention default None
OUT
