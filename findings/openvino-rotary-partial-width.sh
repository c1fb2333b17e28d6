#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: openvino 2026.4.1, on the CPU; compared with onnxruntime 1.32.0.
# Guess:   com.microsoft.RotaryEmbedding with rotary_embedding_dim rotates a part of each head, as ai.onnx's does.
# Seen:    for inputs [B, S, H * D] the contrib operator is imported with heads as wide as the rotated part, so that
#          every channel is rotated: [5, 3, 8] with 4 rotated becomes [5, 6, 4]. The operator of opset 23 is right.
# Matters: GPT-NeoX, Phi and others that rotate a part, exported with the contrib operator, are wrong without a message.
. "$(dirname "$0")/common.sh"

python_packages openvino==2026.4.1 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
python_program <<'PY'
import numpy as np, openvino, one_node

x = np.random.default_rng(1).standard_normal((1, 5, 3 * 8)).astype("f")
cos, sin = one_node.rotary_cache(16, 2)
positions = np.arange(3, 8)[None]
every = dict(num_heads=3, rotary_embedding_dim=4, interleaved=0)
print("openvino", openvino.__version__.split("-")[0])
for name, inputs, domain in (("ai.onnx", dict(X=x, cos_cache=cos, sin_cache=sin, position_ids=positions), ""),
                             ("com.microsoft", dict(input=x, position_ids=positions, cos_cache=cos, sin_cache=sin), one_node.CONTRIB)):
    more = dict(scale=1.0, is_packed_batching=0) if domain else {}
    model = one_node.model("RotaryEmbedding", inputs, domain=domain, **every, **more)
    expected, seen = one_node.run_onnxruntime(model, inputs)[0], one_node.run_openvino(model, inputs)[0].reshape(x.shape)
    changed = [int((np.abs(y - x).max((0, 1)).reshape(3, 8) > 0).sum()) for y in (expected, seen)]
    print(name, "channels rotated: onnxruntime", changed[0], "openvino", changed[1], "same output", np.allclose(expected, seen, atol=1e-5))
PY
expect <<'OUT'
openvino 2026.4.1
ai.onnx channels rotated: onnxruntime 12 openvino 12 same output True
com.microsoft channels rotated: onnxruntime 12 openvino 24 same output False
OUT
