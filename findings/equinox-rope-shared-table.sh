#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: equinox 0.13.8, on jax 0.10.2.
# Guess:   RotaryPositionalEmbedding rotates by its own theta.
# Seen:    all modules of one width and element type share one table. The second theta is not read, until a longer text
#          builds the table again: from then on it is the theta of both, and the first module's results change.
# Matters: local and global layers, or two models in one process, rotate by the wrong base. In posenc a Rope owns its
#          frequencies.
. "$(dirname "$0")/common.sh"

python_packages equinox==0.13.8 jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6
python_program <<'PY'
import importlib.metadata, equinox as eqx, jax.numpy as jnp, numpy as np

local, far = (eqx.nn.RotaryPositionalEmbedding(8, theta=theta) for theta in (1e4, 1e6))


def used(module, tokens):
    """The theta by which token 1 was rotated."""
    seen = np.array(module(jnp.tile(jnp.array([1.0] * 4 + [0.0] * 4), (tokens, 1))))[1]
    return f"{np.arctan2(seen[5], seen[1]) ** -4.0:.0e}"


print("equinox", importlib.metadata.version("equinox"))
for name, module, tokens in (("1e4", local, 4), ("1e6", far, 4), ("1e6", far, 8), ("1e4", local, 4)):
    print(f"module with theta {name}, {tokens} tokens: rotates by {used(module, tokens)}")
PY
expect <<'OUT'
equinox 0.13.8
module with theta 1e4, 4 tokens: rotates by 1e+04
module with theta 1e6, 4 tokens: rotates by 1e+04
module with theta 1e6, 8 tokens: rotates by 1e+06
module with theta 1e4, 4 tokens: rotates by 1e+06
OUT
