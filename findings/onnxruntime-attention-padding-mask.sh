#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: onnxruntime 1.32.0, on the CPU; compared with the reference of onnx 1.23.2.
# Guess:   Attention accepts a padding mask [B, 1, 1, Sk], and a mask that is shorter than the keys: its text says that
#          the mask is broadcast, and padded with -inf.
# Seen:    both are rejected when the model runs. The mask must have all rows of queries and all keys.
# Matters: expand masks to [B, 1, Sq, Sk] before export.
. "$(dirname "$0")/common.sh"

python_packages onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
python_program <<'PY'
import numpy as np, one_node, onnxruntime
from onnx.reference import ReferenceEvaluator

q, k, v = one_node.averaged_keys(4)
print("onnxruntime", onnxruntime.__version__)
for shape in ((1, 1, 4, 4), (1, 1, 1, 4), (4, 3)):
    mask = np.ones(shape, bool)
    mask[..., 2:] = False
    inputs = dict(Q=q, K=k, V=v, attn_mask=mask)
    model = one_node.model("Attention", inputs)
    reference = ReferenceEvaluator(model).run(None, inputs)[0][0, 0, -1]
    try:
        seen = np.round(one_node.run_onnxruntime(model, inputs)[0][0, 0, -1], 2)
    except Exception as error:
        seen = "rejects it: " + ("inconsistent " + str(error).split("inconsistent ")[-1].strip())
    print("mask", shape, "| onnx", np.round(reference, 2), "| onnxruntime", seen)
PY
expect <<'OUT'
onnxruntime 1.32.0
mask (1, 1, 4, 4) | onnx [0.5 0.5 0.  0. ] | onnxruntime [0.5 0.5 0.  0. ]
mask (1, 1, 1, 4) | onnx [0.5 0.5 0.  0. ] | onnxruntime rejects it: inconsistent q_sequence_length (between attn_mask and Q)
mask (4, 3) | onnx [0.5 0.5 0.  0. ] | onnxruntime rejects it: inconsistent total_sequence_length (between attn_mask and past_key and past_value)
OUT
