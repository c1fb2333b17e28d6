#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: keras 3.15.1 on jax 0.10.2, and jax itself.
# Guess:   with one query and five keys, a causal mask shows all keys: the query is the token that comes last.
# Seen:    the query sees the first key alone. The diagonal of Keras' layers and of JAX's function starts at the top left.
# Matters: decoding with a cache attends to the first token alone. posenc has no default: `Causal::TopLeft` is these
#          packages' diagonal, `Causal::BottomRight` that of decoding.
. "$(dirname "$0")/common.sh"

python_packages jax==0.10.2 jaxlib==0.10.2 keras==3.15.1 numpy==2.4.6
export KERAS_BACKEND=jax
python_program 2>/dev/null <<'PY'
import jax, keras, numpy as np

one, five = np.ones((1, 1, 4)), np.random.default_rng(1).standard_normal((1, 5, 4))
print("keras", keras.__version__, "jax", jax.__version__)
layers = {"MultiHeadAttention": keras.layers.MultiHeadAttention(1, 4),
          "GroupQueryAttention": keras.layers.GroupQueryAttention(4, 1, 1)}
for name, layer in layers.items():
    _, weights = layer(one, five, use_causal_mask=True, return_attention_scores=True)
    print(f"{name}: keys seen", (np.array(weights)[0, 0, 0] > 0).astype(int))
weights = jax.nn.dot_product_attention(one[:, :, None], five[:, :, None], np.eye(5)[None, :, None, :4], is_causal=True)
print("jax.nn.dot_product_attention: keys seen", (np.array(weights)[0, 0, 0] > 0).astype(int), "of the first four")
PY
expect <<'OUT'
keras 3.15.1 jax 0.10.2
MultiHeadAttention: keys seen [1 0 0 0 0]
GroupQueryAttention: keys seen [1 0 0 0 0]
jax.nn.dot_product_attention: keys seen [1 0 0 0] of the first four
OUT
