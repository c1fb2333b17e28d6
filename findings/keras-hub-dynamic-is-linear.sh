#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: keras-hub 0.32.0 on keras 3.15.1, backend jax 0.10.2.
# Guess:   RotaryEmbedding(rope_type="dynamic") changes nothing up to the trained length, and raises the base with the
#          length beyond it.
# Seen:    it reads no length and keeps the base. From the first token on, every frequency is divided by
#          factor^(d/(d-2)): linear scaling, by more than the factor.
# Matters: neither posenc's DynamicNtkScaling nor its NtkScaling is the same. LinearScaling with that power is.
. "$(dirname "$0")/common.sh"

python_packages jax==0.10.2 jaxlib==0.10.2 keras==3.15.1 numpy==2.4.6 regex tokenizers sentencepiece kagglehub packaging
python_packages --no-deps keras-hub==0.32.0
export KERAS_BACKEND=jax
python_program 2>/dev/null <<'PY'
import keras_hub, numpy as np

x = np.random.default_rng(1).standard_normal((1, 4, 1, 8)).astype("f")
layer = keras_hub.layers.RotaryEmbedding(rope_type="dynamic", scaling_factor=4.0, original_max_position_embeddings=4096)
seen = np.array(layer(x))


def rotated(frequencies):
    angles = (np.arange(4)[:, None] * frequencies)[None, :, None]
    u, v, c, s = x[..., :4], x[..., 4:], np.cos(angles), np.sin(angles)
    return np.concatenate([u * c - v * s, u * s + v * c], -1)


i = np.arange(4)
print("keras-hub", keras_hub.__version__)
print("4 tokens of 4096 as unscaled:", np.allclose(seen, rotated(10000.0 ** (-i / 4)), atol=1e-4))
print("as frequencies / 4 ** (8 / 6):", np.allclose(seen, rotated(10000.0 ** (-i / 4) / 4 ** (8 / 6)), atol=1e-4))
PY
expect <<'OUT'
keras-hub 0.32.0
4 tokens of 4096 as unscaled: False
as frequencies / 4 ** (8 / 6): True
OUT
