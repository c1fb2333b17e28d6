#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: mlx 0.32.4, on the CPU.
# Guess:   mx.fast.rope(freqs=...) takes inverse frequencies, as the name says: the angle is position * freqs.
# Seen:    the angle is position / freqs. A table of inverse frequencies gives other rotations, without a message.
# Matters: give MLX the reciprocals of `inv_freq()`. Factors of LongRoPE then multiply instead of dividing.
. "$(dirname "$0")/common.sh"

python_packages mlx[cpu]==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
python_program <<'PY'
import mlx.core as mx, numpy as np

mx.set_default_device(mx.cpu)
x = np.random.default_rng(1).standard_normal((1, 1, 4, 8)).astype("f")
inverse = 10000.0 ** (-np.arange(4) / 4)


def rotated(angles):
    u, v, c, s = x[..., :4], x[..., 4:], np.cos(angles), np.sin(angles)
    return np.concatenate([u * c - v * s, u * s + v * c], -1)


position = np.arange(5, 9)[:, None]
given = mx.fast.rope(mx.array(x), 8, traditional=False, base=None, scale=1.0, offset=5, freqs=mx.array(inverse.astype("f")))
print("mlx", mx.__version__)
print("position * freqs:", np.abs(np.array(given) - rotated(position * inverse)).max() < 1e-2)
print("position / freqs:", np.abs(np.array(given) - rotated(position / inverse)).max() < 1e-2)
PY
expect <<'OUT'
mlx 0.32.4
position * freqs: False
position / freqs: True
OUT
