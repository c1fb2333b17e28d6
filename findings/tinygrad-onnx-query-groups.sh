#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: tinygrad 0.14.0, its runner of ONNX, on the CPU; compared with onnxruntime 1.32.0.
# Guess:   query head h of the operator Attention reads KV head h / (H / Hkv), as in tinygrad's own attention.
# Seen:    it reads KV head h % Hkv. One KV head, or as many as query heads, hide it.
# Matters: a grouped-query model gives other text without an error. In posenc the shapes decide, by the first rule.
. "$(dirname "$0")/common.sh"

python_packages tinygrad==0.14.0 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
export DEV=CPU
python_program <<'PY'
import importlib.metadata, numpy as np, one_node, onnx
from tinygrad import Tensor
from tinygrad.nn.onnx import OnnxRunner

print("tinygrad", importlib.metadata.version("tinygrad"))
for kv_heads in (1, 2, 3, 6):
    # The value of a key is the number of its KV head.
    values = np.broadcast_to(np.arange(kv_heads, dtype="f")[None, :, None, None], (1, kv_heads, 5, 8)).copy()
    inputs = dict(q=np.ones((1, 6, 3, 8), "f"), k=np.ones((1, kv_heads, 5, 8), "f"), v=values)
    model = one_node.model("Attention", inputs)
    onnx.save(model, "attention.onnx")
    heads = lambda y: np.round(np.asarray(y)[0, :, 0, 0]).astype(int).tolist()
    own = Tensor(inputs["q"]).scaled_dot_product_attention(Tensor(inputs["k"]), Tensor(inputs["v"]), enable_gqa=True)
    print(f"6 query heads read KV heads {heads(OnnxRunner('attention.onnx')(inputs)['y'].numpy())}",
          f"(onnxruntime {heads(one_node.run_onnxruntime(model, inputs)[0])}, without ONNX {heads(own.numpy())})")
PY
expect <<'OUT'
tinygrad 0.14.0
6 query heads read KV heads [0, 0, 0, 0, 0, 0] (onnxruntime [0, 0, 0, 0, 0, 0], without ONNX [0, 0, 0, 0, 0, 0])
6 query heads read KV heads [0, 1, 0, 1, 0, 1] (onnxruntime [0, 0, 0, 1, 1, 1], without ONNX [0, 0, 0, 1, 1, 1])
6 query heads read KV heads [0, 1, 2, 0, 1, 2] (onnxruntime [0, 0, 1, 1, 2, 2], without ONNX [0, 0, 1, 1, 2, 2])
6 query heads read KV heads [0, 1, 2, 3, 4, 5] (onnxruntime [0, 1, 2, 3, 4, 5], without ONNX [0, 1, 2, 3, 4, 5])
OUT
