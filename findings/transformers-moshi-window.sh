#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: transformers 5.24.0 with torch 2.15.0.
# Guess:   sliding_window of Moshi's configuration limits what a token sees, as it does in Mistral.
# Seen:    the prompt is masked causally alone: a token sees all before it. Mistral sees sliding_window of them.
# Matters: scores of prompts longer than the window differ from those of a program that follows the file.
. "$(dirname "$0")/common.sh"

python_packages transformers==5.24.0 torch==2.15.0
python_program 2>/dev/null <<'PY'
import torch
import transformers
from transformers import MistralConfig, MistralModel, MoshiConfig
from transformers.models.moshi.modeling_moshi import MoshiModel

print("transformers", transformers.__version__)
small = dict(hidden_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2, head_dim=32, vocab_size=32,
             sliding_window=4)
for config, model in ((MistralConfig(intermediate_size=64, **small), MistralModel), (MoshiConfig(ffn_dim=128, **small), MoshiModel)):
    torch.manual_seed(0)
    built = model._from_config(config, attn_implementation="eager").eval()
    with torch.no_grad():
        weights = built(input_ids=torch.arange(10)[None], output_attentions=True).attentions[0][0, 0]
    print(f"{config.model_type:8}keys that tokens 0 to 9 see:", [int((row > 0).sum()) for row in weights])
PY
expect <<'OUT'
transformers 5.24.0
mistral keys that tokens 0 to 9 see: [1, 2, 3, 4, 4, 4, 4, 4, 4, 4]
moshi   keys that tokens 0 to 9 see: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
OUT
