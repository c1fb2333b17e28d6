#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: @node-llama-cpp/linux-x64 3.22.1 (llama.cpp v0.5.0), its ggml on the CPU.
# Guess:   ggml_rope_ext_back undoes ggml_rope_ext with the same arguments.
# Seen:    it is the adjoint: it turns back, and multiplies by the attention factor once more. With YaRN a pair of calls
#          makes vectors longer by the factor's square, 1.2965 for a scale of 1/4.
# Matters: keys that are turned back and forth grow. In posenc `inverse` divides by the factor, and `adjoint` keeps it.
. "$(dirname "$0")/common.sh"

python_packages numpy==2.4.6
npm_packages @node-llama-cpp/linux-x64@3.22.1
python_program <<'PY'
import json, numpy as np, ggml

x = np.random.default_rng(1).standard_normal((5, 1, 8)).astype("f")
positions = np.arange(3, 8, dtype="i")
print("@node-llama-cpp/linux-x64", json.load(open("node_modules/@node-llama-cpp/linux-x64/package.json"))["version"])
for name, scale, mix in (("plain", 1.0, 0.0), ("linear", 0.25, 0.0), ("YaRN", 0.25, 1.0)):
    arguments = (positions, None, 8, 2, 16, 10000.0, scale, mix, 1.0, 32.0, 1.0)
    back = ggml.call("rope_back", x.shape, ggml.call("rope", x.shape, x, *arguments), *arguments)
    print(name, "ratio of lengths %.4f" % (np.linalg.norm(back) / np.linalg.norm(x)))
print("square of 1 + 0.1 ln 4: %.4f" % (1 + 0.1 * np.log(4)) ** 2)
PY
expect <<'OUT'
@node-llama-cpp/linux-x64 3.22.1
plain ratio of lengths 1.0000
linear ratio of lengths 1.0000
YaRN ratio of lengths 1.2965
square of 1 + 0.1 ln 4: 1.2965
OUT
