#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: jax 0.10.2, on the CPU.
# Guess:   jax.nn.dot_product_attention treats a query without visible keys the same, however the keys are hidden.
# Seen:    by `mask`, or by a key length of 0: all keys, with equal weights, padding included. By a `bias` of -inf: NaN.
#          By the query's own length: zeros.
# Matters: a sequence of length 0 in a batch attends to everything. posenc writes zeros in all of these.
. "$(dirname "$0")/common.sh"

python_packages jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
python_program <<'PY'
import jax, jax.numpy as jnp, numpy as np

q, k, v = jnp.zeros((1, 2, 1, 4)), jnp.zeros((1, 4, 1, 4)), jnp.eye(4)[None, :, None, :]
first_row = lambda **options: np.round(np.array(jax.nn.dot_product_attention(q, k, v, **options))[0, 0, 0], 2)
print("jax", jax.__version__)
print("mask of False:       ", first_row(mask=jnp.zeros((1, 1, 2, 4), bool)))
print("key length of 0:     ", first_row(key_value_seq_lengths=jnp.array([0])))
print("bias of -inf:        ", first_row(bias=jnp.full((1, 1, 2, 4), -jnp.inf)))
print("query length of 0:   ", first_row(query_seq_lengths=jnp.array([0])))
PY
expect <<'OUT'
jax 0.10.2
mask of False:        [0.25 0.25 0.25 0.25]
key length of 0:      [0.25 0.25 0.25 0.25]
bias of -inf:         [nan nan nan nan]
query length of 0:    [0. 0. 0. 0.]
OUT
