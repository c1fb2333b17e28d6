#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: mlx-lm 0.32.2, with mlx 0.32.4 on the CPU.
# Guess:   LongRoPE uses short_factor up to the trained length and long_factor beyond, as the docstring says.
# Seen:    short_factor is never read. A prompt of one token is rotated with the long factors.
# Matters: transformers and posenc's `frequencies(rule, length)` differ from it in every short text of Phi-3.
. "$(dirname "$0")/common.sh"

python_packages mlx[cpu]==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
python_packages --no-deps mlx-lm==0.32.2
python_program <<'PY'
import importlib.metadata, importlib.util, pathlib
import mlx.core as mx, numpy as np

mx.set_default_device(mx.cpu)
source = importlib.metadata.distribution("mlx-lm").locate_file("mlx_lm/models/rope_utils.py")
spec = importlib.util.spec_from_file_location("rope_utils", str(source))
rope_utils = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rope_utils)


def rotated(short):
    scaling = dict(type="longrope", original_max_position_embeddings=4096, short_factor=short, long_factor=[2.0] * 4)
    rope = rope_utils.initialize_rope(8, 10000.0, False, scaling, max_position_embeddings=131072)
    return np.array(rope(mx.ones((1, 1, 1, 8)), offset=7))


print("mlx-lm", importlib.metadata.version("mlx-lm"))
print("position 7 is the same for short factors of 1 and of 1000:", np.array_equal(rotated([1.0] * 4), rotated([1000.0] * 4)))
PY
expect <<'OUT'
mlx-lm 0.32.2
position 7 is the same for short factors of 1 and of 1000: True
OUT
