#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: tract 0.23.9; compared with onnxruntime 1.32.0.
# Guess:   GroupQueryAttention reads the valid length of each row from seqlens_k, or rejects a longer past_key.
# Seen:    seqlens_k is not read. The new key comes after the last row of past_key, and rows beyond the valid ones are
#          attended to, with no error.
# Matters: preallocated caches, and batches of unequal lengths, give wrong output. posenc's `.key_lengths` masks such keys.
. "$(dirname "$0")/common.sh"

python_packages tract==0.23.9 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
python_program <<'PY'
import importlib.metadata, numpy as np, one_node, onnx, tract

random = np.random.default_rng(1)
normal = lambda *shape: random.standard_normal(shape).astype("f")
print("tract", importlib.metadata.version("tract"))
for lengths, capacity in (([4, 4], 4), ([4, 2], 4), ([4, 4], 8)):
    inputs = dict(query=normal(2, 1, 64), key=normal(2, 1, 32), value=normal(2, 1, 32), past_key=normal(2, 2, capacity, 16),
                  past_value=normal(2, 2, capacity, 16), seqlens_k=np.array(lengths, "i"), total_sequence_length=np.array([5], "i"))
    model = one_node.model("GroupQueryAttention", inputs, ("y", "k", "v"), one_node.CONTRIB, num_heads=4, kv_num_heads=2)
    onnx.save(model, "attention.onnx")
    file = tract.onnx().load("attention.onnx")
    seen = [result.to_numpy() for result in file.into_model().into_runnable().run(list(inputs.values()))]
    expected = one_node.run_onnxruntime(model, inputs)
    print(f"past lengths {lengths} in past_key of length {capacity}: wrong rows", np.flatnonzero(np.abs(expected[0] - seen[0]).max((1, 2)) > 1e-3).tolist(),
          f"present_key of length {seen[1].shape[2]} (onnxruntime {expected[1].shape[2]})")
PY
expect <<'OUT'
tract 0.23.9
past lengths [4, 4] in past_key of length 4: wrong rows [] present_key of length 5 (onnxruntime 5)
past lengths [4, 2] in past_key of length 4: wrong rows [1] present_key of length 5 (onnxruntime 5)
past lengths [4, 4] in past_key of length 8: wrong rows [0, 1] present_key of length 9 (onnxruntime 8)
OUT
