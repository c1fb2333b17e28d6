#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: ejkernel 0.0.80.3, on the CPU (jax 0.10.2).
# Guess:   softmax_aux of [H] numbers is one sink per head, in attention and in flash_attention.
# Seen:    it is in attention. flash_attention adds all H sinks to every head. If there are as many sinks as KV heads,
#          attention repeats them over their groups; any other number is a list for all heads in both.
# Matters: gpt-oss has one sink per head. In posenc `.sinks` is always one per query head.
. "$(dirname "$0")/common.sh"

python_packages ejkernel==0.0.80.3 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
export HOME="$work"  # it keeps its tuning there
python_program <<'PY'
import importlib.metadata, jax.numpy as jnp, numpy as np
from ejkernel.modules import attention, flash_attention

# One key of value 1 and score 0: the output of a head is 1 / (1 + number of sinks).
q, k, v = jnp.zeros((1, 1, 8, 16)), jnp.zeros((1, 1, 2, 16)), jnp.ones((1, 1, 2, 16))
per_head = lambda y: np.unique(np.round(1 / np.array(y)[0, 0, :, 0] - 1)).astype(int).tolist()
print("ejkernel", importlib.metadata.version("ejkernel"))
for count in (2, 4, 8):
    sinks = jnp.zeros(count)
    print(f"8 heads, 2 KV heads, {count} numbers: sinks of a head are",
          per_head(attention(q, k, v, None, None, sinks, dtype=jnp.float32)[0]), "in attention,",
          per_head(flash_attention(q, k, v, None, None, None, sinks)), "in flash_attention")
PY
expect <<'OUT'
ejkernel 0.0.80.3
8 heads, 2 KV heads, 2 numbers: sinks of a head are [1] in attention, [2] in flash_attention
8 heads, 2 KV heads, 4 numbers: sinks of a head are [4] in attention, [4] in flash_attention
8 heads, 2 KV heads, 8 numbers: sinks of a head are [1] in attention, [8] in flash_attention
OUT
