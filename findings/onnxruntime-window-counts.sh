#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: onnxruntime 1.32.0, on the CPU.
# Guess:   a window of 2 means the same in both attention operators of one runtime.
# Seen:    Attention's left_window_size (opset 25) counts the keys before the query's own: 2 shows three keys.
#          GroupQueryAttention's local_window_size, documented as left_window_size, counts the own key: 2 shows two.
# Matters: posenc's `sliding_window(visible)` is local_window_size, and left_window_size + 1.
. "$(dirname "$0")/common.sh"

python_packages onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
python_program <<'PY'
import numpy as np, one_node, onnxruntime

q, k, v = one_node.averaged_keys(8)
print("onnxruntime", onnxruntime.__version__)
inputs = dict(Q=q, K=k, V=v)
model = one_node.model("Attention", inputs, opset=25, is_causal=1, left_window_size=2)
print("Attention, left_window_size 2: keys per query", (one_node.run_onnxruntime(model, inputs)[0][0, 0] > 0).sum(-1).tolist())
inputs = dict(query=q[0], key=k[0], value=v[0], past_key=np.zeros((1, 1, 0, 8), "f"), past_value=np.zeros((1, 1, 0, 8), "f"),
              seqlens_k=np.array([7], "i"), total_sequence_length=np.array([8], "i"))
model = one_node.model("GroupQueryAttention", inputs, ("y", "pk", "pv"), one_node.CONTRIB, num_heads=1, kv_num_heads=1, local_window_size=2)
print("GroupQueryAttention, local_window_size 2: keys per query", (one_node.run_onnxruntime(model, inputs)[0][0] > 0).sum(-1).tolist())
PY
expect <<'OUT'
onnxruntime 1.32.0
Attention, left_window_size 2: keys per query [1, 2, 3, 3, 3, 3, 3, 3]
GroupQueryAttention, local_window_size 2: keys per query [1, 2, 2, 2, 2, 2, 2, 2]
OUT
