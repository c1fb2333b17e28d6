#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: openvino 2026.4.1, on the CPU; compared with onnxruntime 1.32.0 and the reference of onnx 1.23.2.
# Guess:   a frontend that does not know left_window_size of Attention (opset 25) rejects the node.
# Seen:    it ignores the window. Every query sees all keys, without a message.
# Matters: a model with local layers is right in ONNX Runtime and wrong here from the first key outside the window on.
. "$(dirname "$0")/common.sh"

python_packages openvino==2026.4.1 onnxruntime==1.32.0 onnx==1.23.2 numpy==2.4.6
python_program <<'PY'
import numpy as np, openvino, one_node
from onnx.reference import ReferenceEvaluator

q, k, v = one_node.averaged_keys(4)
inputs = dict(Q=q, K=k, V=v)
model = one_node.model("Attention", inputs, opset=25, left_window_size=1, right_window_size=0)
print("openvino", openvino.__version__.split("-")[0])
for name, output in (("onnx", ReferenceEvaluator(model).run(None, inputs)), ("onnxruntime", one_node.run_onnxruntime(model, inputs)),
                     ("openvino", one_node.run_openvino(model, inputs))):
    print(name, "weights of the last query:", np.round(output[0][0, 0, -1], 2))
PY
expect <<'OUT'
openvino 2026.4.1
onnx weights of the last query: [0.  0.  0.5 0.5]
onnxruntime weights of the last query: [0.  0.  0.5 0.5]
openvino weights of the last query: [0.25 0.25 0.25 0.25]
OUT
