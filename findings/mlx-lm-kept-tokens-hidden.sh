#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: mlx-lm 0.32.2, with mlx 0.32.4 on the CPU.
# Guess:   tokens that RotatingKVCache keeps (`keep`, 4 with --max-kv-size) are visible to every later query.
# Seen:    of a chunk of the prompt, the first queries see fewer and fewer of them, and the others none. Single tokens
#          see them all.
# Matters: attention sinks are missing for nearly all tokens of a long prompt. A mask, posenc's `.keep`, shows them.
. "$(dirname "$0")/common.sh"

python_packages mlx[cpu]==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
python_packages --no-deps mlx-lm==0.32.2
python_program <<'PY'
import importlib.metadata, sys, types
import mlx.core as mx, numpy as np

mx.set_default_device(mx.cpu)
package = types.ModuleType("mlx_lm")  # without its requirements
package.__path__ = [str(importlib.metadata.distribution("mlx-lm").locate_file("mlx_lm"))]
sys.modules["mlx_lm"] = package
from mlx_lm.models.cache import RotatingKVCache


def visible(cache, first, count):
    """Tokens that each query of a chunk sees; the value of a key is its token."""
    tokens = mx.arange(first, first + count, dtype=mx.float32).reshape(1, 1, count, 1)
    mask = cache.make_mask(count, return_array=True)
    keys = np.array(cache.update_and_fetch(tokens, tokens)[0])[0, 0, :, 0].astype(int)
    return [sorted(keys.tolist()) if mask is None else keys[row].tolist() for row in ([0] if mask is None else np.array(mask))]


print("mlx-lm", importlib.metadata.version("mlx-lm"))
cache = RotatingKVCache(max_size=8, keep=2)
for first in (0, 4, 8, 12):
    seen = visible(cache, first, 4)
for token, keys in zip(range(12, 16), seen):
    print(f"token {token} of a chunk sees", keys)
print("token 16 alone sees", visible(cache, 16, 1)[0])
PY
expect <<'OUT'
mlx-lm 0.32.2
token 12 of a chunk sees [0, 1, 7, 8, 9, 10, 11, 12]
token 13 of a chunk sees [1, 7, 8, 9, 10, 11, 12, 13]
token 14 of a chunk sees [7, 8, 9, 10, 11, 12, 13, 14]
token 15 of a chunk sees [8, 9, 10, 11, 12, 13, 14, 15]
token 16 alone sees [0, 1, 11, 12, 13, 14, 15, 16]
OUT
