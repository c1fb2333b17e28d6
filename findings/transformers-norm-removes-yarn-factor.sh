#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: transformers 5.24.0 with torch 2.15.0.
# Guess:   YaRN's attention_factor sharpens the scores of every model that accepts it.
# Seen:    HunYuan norms queries and keys after the rotation, and the norm divides the factor out again. A factor of 2
#          changes Llama's weights by more than 0.1, and HunYuan's by rounding and the norm's epsilon.
# Matters: a port that norms before the rotation has sharper scores; one that folds the factor into the scale does, too.
. "$(dirname "$0")/common.sh"

python_packages transformers==5.24.0 torch==2.15.0
python_program 2>/dev/null <<'PY'
import torch
import transformers
from transformers import LlamaConfig, LlamaModel
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.hunyuan_v1_dense.modeling_hunyuan_v1_dense import HunYuanDenseV1Model

print("transformers", transformers.__version__)
small = dict(hidden_size=64, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=1,
             head_dim=32, vocab_size=32, max_position_embeddings=256, pad_token_id=0)
yarn = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64)


def weights(config, model, factor):
    built = model._from_config(config(**small, rope_parameters=yarn | {"attention_factor": factor}), attn_implementation="eager")
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in built.parameters():
            if p.dim() == 2:
                p.copy_(torch.randn(p.shape, generator=draw) * 0.3)
        return built.eval()(input_ids=torch.arange(10)[None], output_attentions=True).attentions[0]


for name, config, model in (("Llama", LlamaConfig, LlamaModel), ("HunYuan", CONFIG_MAPPING["hunyuan_v1_dense"], HunYuanDenseV1Model)):
    change = float((weights(config, model, 1.0) - weights(config, model, 2.0)).abs().max())
    print(f"{name:8}attention_factor 2 changes weights by {'less than 1e-4' if change < 1e-4 else 'more than 0.1' if change > 0.1 else change}")
PY
expect <<'OUT'
transformers 5.24.0
Llama   attention_factor 2 changes weights by more than 0.1
HunYuan attention_factor 2 changes weights by less than 1e-4
OUT
