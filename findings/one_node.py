# SPDX-License-Identifier: MIT
"""Builds an ONNX model of one node, and runs it in ONNX Runtime, OpenVINO or onnx's reference evaluator."""

import numpy as np
from onnx import TensorProto, helper

CONTRIB = "com.microsoft"


def model(op, inputs, outputs=("y",), domain="", opset=24, **attributes):
    """Returns a model of one node. `inputs` are arrays by name, in the operator's order; None leaves one out."""
    given = {name: value for name, value in inputs.items() if value is not None}
    names = [name if name in given else "" for name in inputs]
    node = helper.make_node(op, names, list(outputs), domain=domain, **attributes)
    graph = helper.make_graph(
        [node],
        "one_node",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in given.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs if n],
    )
    imports = [helper.make_opsetid("", opset)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, opset_imports=imports, ir_version=11)


def feeds(inputs):
    return {name: value for name, value in inputs.items() if value is not None}


def run_onnxruntime(built, inputs):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(built.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds(inputs))


def run_openvino(built, inputs):
    import openvino

    core = openvino.Core()
    compiled = core.compile_model(core.read_model(built.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    results = compiled(feeds(inputs))
    return [np.array(results[output]) for output in compiled.outputs]


def rotary_cache(positions, pairs, base=10000.0):
    """Returns cos and sin, [positions, pairs]."""
    angles = np.arange(positions)[:, None] * base ** (-np.arange(pairs) / pairs)
    return np.cos(angles).astype("f"), np.sin(angles).astype("f")


def averaged_keys(keys):
    """Returns queries, keys and values of one head for which an output row lists the softmax weights of the keys."""
    return np.zeros((1, 1, keys, keys), "f"), np.zeros((1, 1, keys, keys), "f"), np.eye(keys, dtype="f")[None, None]
