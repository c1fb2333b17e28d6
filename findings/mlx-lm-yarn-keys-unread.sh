#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: mlx-lm 0.32.2, with mlx 0.32.4 on the CPU.
# Guess:   YaRN honours `truncate: false`, which gpt-oss' configuration has, and `attention_factor`, as transformers does.
# Seen:    neither is read. The ends of the ramp are always rounded, and the factor is always that of mscale.
# Matters: frequencies of gpt-oss differ by up to 76 % from those of its training. posenc reads both keys.
. "$(dirname "$0")/common.sh"

python_packages mlx[cpu]==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
python_packages --no-deps mlx-lm==0.32.2
python_program <<'PY'
import importlib.metadata, importlib.util, math
import mlx.core as mx, numpy as np

mx.set_default_device(mx.cpu)
source = importlib.metadata.distribution("mlx-lm").locate_file("mlx_lm/models/rope_utils.py")
spec = importlib.util.spec_from_file_location("rope_utils", str(source))
rope_utils = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rope_utils)
GPT_OSS = dict(rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, original_max_position_embeddings=4096)


def rotated(**more):
    rope = rope_utils.initialize_rope(64, 150000.0, False, GPT_OSS | more, max_position_embeddings=131072)
    return np.array(rope(mx.ones((1, 1, 1, 64)), offset=1000))[0, 0, 0]


def frequencies(truncate):
    ends = [64 * math.log(4096 / (beta * 2 * math.pi)) / (2 * math.log(150000)) for beta in (32, 1)]
    low, high = (math.floor(ends[0]), math.ceil(ends[1])) if truncate else ends
    ramp = np.clip((np.arange(32) - low) / (high - low), 0, 1)
    return 150000.0 ** (-np.arange(32) / 32) * (1 - ramp + ramp / 32)


def is_rotated_by(frequencies):
    c, s = np.cos(1000 * frequencies), np.sin(1000 * frequencies)
    return np.allclose(rotated(truncate=False), (1 + 0.1 * math.log(32)) * np.concatenate([c - s, s + c]), atol=1e-3)


print("mlx-lm", importlib.metadata.version("mlx-lm"))
print("truncate: false rotates by rounded ends:", is_rotated_by(frequencies(True)), "unrounded:", is_rotated_by(frequencies(False)))
print(f"frequencies of the two differ by up to {np.abs(frequencies(True) / frequencies(False) - 1).max():.0%}")
print("attention_factor changes the output:", not np.array_equal(rotated(attention_factor=1.0), rotated()))
PY
expect <<'OUT'
mlx-lm 0.32.2
truncate: false rotates by rounded ends: True unrounded: False
frequencies of the two differ by up to 76%
attention_factor changes the output: False
OUT
