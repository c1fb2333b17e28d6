#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: onnx 1.23.2, its reference evaluator; compared with onnxruntime 1.32.0.
# Guess:   qk_matmul_output_mode 0 of Attention is the product of queries and keys, before the soft cap (that is mode 1).
# Seen:    the reference evaluator returns capped scores in mode 0. ONNX Runtime returns the product, as the text says.
# Matters: scores of a model with a soft cap, compared with this reference, look wrong although they are right.
. "$(dirname "$0")/common.sh"

python_packages onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
python_program <<'PY'
import numpy as np, one_node, onnx
from onnx.reference import ReferenceEvaluator

random = np.random.default_rng(1)
q, k, v = (random.standard_normal((1, 1, 3, 4)).astype("f") for _ in range(3))
inputs = dict(Q=q, K=k, V=v)
product = q @ k.swapaxes(2, 3) / 2
print("onnx", onnx.__version__)
for mode in (0, 1):
    model = one_node.model("Attention", inputs, ("y", "", "", "scores"), softcap=1.5, qk_matmul_output_mode=mode)
    for name, output in (("onnx", ReferenceEvaluator(model).run(None, inputs)), ("onnxruntime", one_node.run_onnxruntime(model, inputs))):
        print("mode", mode, name, "product" if np.allclose(output[1], product, atol=1e-5) else
              "capped" if np.allclose(output[1], 1.5 * np.tanh(product / 1.5), atol=1e-5) else "neither")
PY
expect <<'OUT'
onnx 1.23.2
mode 0 onnx capped
mode 0 onnxruntime product
mode 1 onnx capped
mode 1 onnxruntime capped
OUT
