#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: transformers 5.24.0 with torch 2.15.0.
# Guess:   rotary_dim of MiniMax M3, documented as the rotated channels, sets how many channels rotate.
# Seen:    the class stores rotary_dim and rotates by partial_rotary_factor alone. Its own default file has rotary_dim 64
#          and no share, so that all 128 channels of a head rotate.
# Matters: a file with rotary_dim alone, as MiniMax M2 has it, rotates twice the channels here, without an error.
. "$(dirname "$0")/common.sh"

python_packages transformers==5.24.0 torch==2.15.0
python_program 2>/dev/null <<'PY'
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.minimax_m3_vl.modeling_minimax_m3_vl import MiniMaxM3VLRotaryEmbedding

print("transformers", transformers.__version__)
for given in ({}, {"rotary_dim": 32}, {"partial_rotary_factor": 0.5}):
    config = CONFIG_MAPPING["minimax_m3_vl_text"](head_dim=128, **given)
    rotated = 2 * MiniMaxM3VLRotaryEmbedding(config).inv_freq.numel()
    print(f"{str(given):31}rotary_dim {config.rotary_dim}, rotated {rotated} of 128")
PY
expect <<'OUT'
transformers 5.24.0
{}                             rotary_dim 64, rotated 128 of 128
{'rotary_dim': 32}             rotary_dim 32, rotated 128 of 128
{'partial_rotary_factor': 0.5} rotary_dim 64, rotated 64 of 128
OUT
