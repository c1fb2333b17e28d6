#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: transformers 5.24.0 with torch 2.15.0.
# Guess:   YaRN in rope_parameters works for Mixtral as it does for Llama, since both have no head_dim in such a file.
# Seen:    Llama fills in head_dim; Mixtral's configuration keeps None, and the rule of YaRN multiplies it by a number. With
#          head_dim written out, or without scaling, the model builds.
# Matters: whoever extends the context of such a file must write head_dim, and a reader that takes hidden_size / heads for
#          granted reads a file that its own program rejects.
. "$(dirname "$0")/common.sh"

python_packages transformers==5.24.0 torch==2.15.0
python_program 2>/dev/null <<'PY'
import transformers
from transformers import LlamaConfig, LlamaModel, MixtralConfig, MixtralModel

print("transformers", transformers.__version__)
small = dict(hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
             vocab_size=32, max_position_embeddings=256)
yarn = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)
plain = dict(rope_type="default", rope_theta=10000.0)


def build(name, config, model, rope, **more):
    try:
        pairs = model(config(**small, **more, rope_parameters=dict(rope))).rotary_emb.inv_freq.numel()
        print(f"{name:24}{pairs} pairs")
    except Exception as error:
        print(f"{name:24}{type(error).__name__}: {error}")


build("Llama, YaRN", LlamaConfig, LlamaModel, yarn)
build("Mixtral, no scaling", MixtralConfig, MixtralModel, plain)
build("Mixtral, YaRN", MixtralConfig, MixtralModel, yarn)
build("Mixtral, YaRN, head_dim", MixtralConfig, MixtralModel, yarn, head_dim=32)
PY
expect <<'OUT'
transformers 5.24.0
Llama, YaRN             16 pairs
Mixtral, no scaling     16 pairs
Mixtral, YaRN           TypeError: unsupported operand type(s) for *: 'NoneType' and 'float'
Mixtral, YaRN, head_dim 16 pairs
OUT
