#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: mlx 0.32.4, on the CPU.
# Guess:   with mask="causal" and more queries than keys, the first queries see no key: zeros or NaN.
# Seen:    they see every key, with equal weights. Finite output, so no test for NaN finds it.
# Matters: posenc writes zeros there and LSE = -inf. Compare only rows that have a visible key.
. "$(dirname "$0")/common.sh"

python_packages mlx[cpu]==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
python_program <<'PY'
import mlx.core as mx, numpy as np

mx.set_default_device(mx.cpu)
attention = mx.fast.scaled_dot_product_attention
q, k, v = mx.zeros((1, 1, 5, 3)), mx.zeros((1, 1, 3, 3)), mx.eye(3).reshape(1, 1, 3, 3)
print("mlx", mx.__version__)
print("causal, 5 queries, 3 keys: weights of the keys per query")
print(np.round(np.array(attention(q, k, v, scale=1.0, mask="causal"))[0, 0], 2))
nothing = mx.zeros((5, 3)).astype(mx.bool_)
print("mask of False alone, first query:", np.round(np.array(attention(q, k, v, scale=1.0, mask=nothing))[0, 0, 0], 2))
PY
expect <<'OUT'
mlx 0.32.4
causal, 5 queries, 3 keys: weights of the keys per query
[[0.33 0.33 0.33]
 [0.33 0.33 0.33]
 [1.   0.   0.  ]
 [0.5  0.5  0.  ]
 [0.33 0.33 0.33]]
mask of False alone, first query: [0.33 0.33 0.33]
OUT
