# SPDX-License-Identifier: MIT
"""Calls single operators of the ggml in the npm package @node-llama-cpp/linux-x64, through ctypes."""

import ctypes

import numpy as np

FOLDER = "node_modules/@node-llama-cpp/linux-x64/bins/linux-x64/"
base = ctypes.CDLL(FOLDER + "libggml-base.so", mode=ctypes.RTLD_GLOBAL)
cpu = ctypes.CDLL(FOLDER + "libggml-cpu-x64.so", mode=ctypes.RTLD_GLOBAL)
pointer, real, integer = ctypes.c_void_p, ctypes.c_float, ctypes.c_int
TYPES = {"float32": 0, "float16": 1, "int32": 26}


class InitParameters(ctypes.Structure):
    _fields_ = [("mem_size", ctypes.c_size_t), ("mem_buffer", pointer), ("no_alloc", ctypes.c_bool)]


def function(library, name, result, *arguments):
    found = getattr(library, name)
    found.restype, found.argtypes = result, arguments
    return found


new_tensor = function(base, "ggml_new_tensor_4d", pointer, pointer, integer, *[ctypes.c_int64] * 4)
data_of = function(base, "ggml_get_data", pointer, pointer)
rope = [pointer, pointer, pointer, pointer, pointer, integer, integer, integer, *[real] * 6]
OPERATORS = {
    "rope": function(base, "ggml_rope_ext", *rope),
    "rope_back": function(base, "ggml_rope_ext_back", *rope),
    "soft_max": function(base, "ggml_soft_max_ext", pointer, pointer, pointer, pointer, real, real),
    "flash_attention": function(base, "ggml_flash_attn_ext", pointer, pointer, pointer, pointer, pointer, pointer, real, real, real),
}
context = function(base, "ggml_init", pointer, InitParameters)(InitParameters(1 << 26, None, False))
function(cpu, "ggml_cpu_init", None)()


def call(operator, shape, *arguments):
    """Returns the operator's float32 output. Arrays become tensors, and None a null pointer."""

    def passed(value):
        if not isinstance(value, np.ndarray):
            return value
        extents = list(value.shape)[::-1] + [1] * (4 - value.ndim)
        tensor = new_tensor(context, TYPES[value.dtype.name], *extents)
        ctypes.memmove(data_of(tensor), np.ascontiguousarray(value).ctypes.data, value.nbytes)
        return tensor

    node = OPERATORS[operator](context, *map(passed, arguments))
    graph = function(base, "ggml_new_graph", pointer, pointer)(context)
    function(base, "ggml_build_forward_expand", None, pointer, pointer)(graph, node)
    function(cpu, "ggml_graph_compute_with_ctx", integer, pointer, pointer, integer)(context, graph, 1)
    output = np.empty(shape, "f")
    ctypes.memmove(output.ctypes.data, data_of(node), output.nbytes)
    return output
