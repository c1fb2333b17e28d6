#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: openvino 2026.4.1, on the CPU; compared with onnxruntime 1.32.0.
# Guess:   Attention with is_causal and past_key is aligned at the bottom right everywhere.
# Seen:    ONNX Runtime follows the operator's text: query i sees keys up to past + i. OpenVINO aligns the last query
#          with the last key. They differ where the call has other numbers of queries and of new keys.
# Matters: "bottom right" is a safe name only if every query brings its key. In posenc the text's rule is
#          Causal::FromStart with query_starts = the length of past_key.
. "$(dirname "$0")/common.sh"

python_packages openvino==2026.4.1 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
python_program <<'PY'
import numpy as np, openvino, one_node

q, k, v = one_node.averaged_keys(5)
print("openvino", openvino.__version__.split("-")[0])
for new in (2, 3):
    end = 2 + new
    inputs = dict(Q=q[:, :, :2], K=k[:, :, 2:end].copy(), V=v[:, :, 2:end].copy(), attn_mask=None,
                  past_key=k[:, :, :2].copy(), past_value=v[:, :, :2].copy())
    model = one_node.model("Attention", inputs, ("y", "present_key", "present_value"), is_causal=1)
    for name, run in (("onnxruntime", one_node.run_onnxruntime), ("openvino", one_node.run_openvino)):
        visible = (run(model, inputs)[0][0, 0] > 0).sum(-1)
        print("past of 2 keys, 2 queries,", new, "new keys:", name, "keys seen per query", visible.tolist())
PY
expect <<'OUT'
openvino 2026.4.1
past of 2 keys, 2 queries, 2 new keys: onnxruntime keys seen per query [3, 4]
past of 2 keys, 2 queries, 2 new keys: openvino keys seen per query [3, 4]
past of 2 keys, 2 queries, 3 new keys: onnxruntime keys seen per query [3, 4]
past of 2 keys, 2 queries, 3 new keys: openvino keys seen per query [4, 5]
OUT
