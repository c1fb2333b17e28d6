#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: @node-llama-cpp/linux-x64 3.22.1 (llama.cpp v0.5.0), its ggml on the CPU.
# Guess:   ggml's two ways of attention agree on a row whose mask is -inf everywhere.
# Seen:    ggml_soft_max_ext gives NaN, ggml_flash_attn_ext zeros. A switch for speed decides what padding does.
# Matters: posenc writes zeros, like the fused operator. Recordings with flash attention off have NaN in such rows.
. "$(dirname "$0")/common.sh"

python_packages numpy==2.4.6
npm_packages @node-llama-cpp/linux-x64@3.22.1
python_program <<'PY'
import json, numpy as np, ggml

mask = np.zeros((2, 32), "f")
mask[1] = -np.inf
weights = ggml.call("soft_max", (1, 2, 32), np.zeros((1, 2, 32), "f"), mask, 1.0, 0.0)
q, k, v = np.zeros((1, 1, 2, 64), "f"), np.zeros((1, 1, 32, 64), "e"), np.ones((1, 1, 32, 64), "e")
fused = ggml.call("flash_attention", (2, 64), q, k, v, mask.astype("e")[None, None], 0.125, 0.0, 0.0)
print("@node-llama-cpp/linux-x64", json.load(open("node_modules/@node-llama-cpp/linux-x64/package.json"))["version"])
print("mean of values of 1, by soft_max:       ", weights.sum(-1)[0])
print("mean of values of 1, by flash_attention:", fused[:, 0])
PY
expect <<'OUT'
@node-llama-cpp/linux-x64 3.22.1
mean of values of 1, by soft_max:        [ 1. nan]
mean of values of 1, by flash_attention: [1. 0.]
OUT
