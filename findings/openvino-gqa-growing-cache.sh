#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: openvino 2026.4.1, on the CPU; compared with onnxruntime 1.32.0.
# Guess:   a first prompt with an empty past_key (length 0) is what ONNX Runtime's GroupQueryAttention documents for
#          caches that grow; OpenVINO computes it or rejects it.
# Seen:    with fixed shapes OpenVINO runs it, returns present_key of length 0, and an output that is wrong in every row.
#          It takes the length of past_key for the capacity. A preallocated past_key is right.
# Matters: export caches with their full length before a model goes to OpenVINO.
. "$(dirname "$0")/common.sh"

python_packages openvino==2026.4.1 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
python_program <<'PY'
import numpy as np, openvino, one_node

print("openvino", openvino.__version__.split("-")[0])
random = np.random.default_rng(1)
normal = lambda *shape: random.standard_normal(shape).astype("f")
for capacity in (0, 8):
    inputs = dict(query=normal(1, 3, 64), key=normal(1, 3, 32), value=normal(1, 3, 32), past_key=np.zeros((1, 2, capacity, 16), "f"),
                  past_value=np.zeros((1, 2, capacity, 16), "f"), seqlens_k=np.array([2], "i"), total_sequence_length=np.array([3], "i"))
    model = one_node.model("GroupQueryAttention", inputs, ("y", "k", "v"), one_node.CONTRIB, num_heads=4, kv_num_heads=2)
    expected, seen = one_node.run_onnxruntime(model, inputs), one_node.run_openvino(model, inputs)
    print("past_key of length", capacity, "present_key:", "onnxruntime", expected[1].shape[2], "openvino", seen[1].shape[2],
          "wrong rows:", np.flatnonzero(np.abs(expected[0] - seen[0]).max((0, 2)) > 1e-3).tolist())
PY
expect <<'OUT'
openvino 2026.4.1
past_key of length 0 present_key: onnxruntime 3 openvino 0 wrong rows: [0, 1, 2]
past_key of length 8 present_key: onnxruntime 8 openvino 8 wrong rows: []
OUT
