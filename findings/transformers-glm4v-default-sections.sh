#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: transformers 5.24.0 with torch 2.15.0.
# Guess:   a model built from a class's default configuration runs, as Qwen2-VL's does.
# Seen:    GLM-4V's text model rotates the whole head by default, 64 pairs, and its default mrope_section adds up to 32. It
#          raises on the first forward pass; with partial_rotary_factor 0.5, as published files have, it runs.
# Matters: the share of a head that rotates is in the published file alone; a reader must not take it from the class.
. "$(dirname "$0")/common.sh"

python_packages transformers==5.24.0 torch==2.15.0
python_program 2>/dev/null <<'PY'
import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.glm4v.modeling_glm4v import Glm4vTextModel

print("transformers", transformers.__version__)
small = dict(hidden_size=256, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
             vocab_size=32, pad_token_id=0)
half = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}
for given in ({}, half):
    model = Glm4vTextModel(CONFIG_MAPPING["glm4v_text"](**small, **given)).eval()
    try:
        with torch.no_grad():
            model(input_ids=torch.arange(10)[None])
        print(f"{2 * model.rotary_emb.inv_freq.numel():3} rotated channels: runs")
    except RuntimeError as error:
        print(f"{2 * model.rotary_emb.inv_freq.numel():3} rotated channels: {str(error).split(' (')[0]}")
PY
expect <<'OUT'
transformers 5.24.0
128 rotated channels: split_with_sizes expects split_sizes to sum exactly to 64
 64 rotated channels: runs
OUT
