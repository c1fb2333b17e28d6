#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: @node-llama-cpp/linux-x64 3.22.1, which is llama.cpp v0.5.0.
# Guess:   glm-dsa reads rope.scaling.yarn_log_multiplier as deepseek32 does, whose attention it has.
# Seen:    it does not. cos and sin keep YaRN's magnitude (1 + 0.1 ln 4 here), while scores are multiplied by its square
#          all the same.
# Matters: scores of rotary channels have the magnitude to the fourth power, not squared. posenc rejects YaRN of glm-dsa.
. "$(dirname "$0")/llama_cpp.sh"

llama_program <<'PY'
import math

import llama_cpp

YARN = {".rope.scaling.type": "yarn", ".rope.scaling.factor": 4.0, ".rope.scaling.original_context_length": 1024,
        ".rope.scaling.yarn_log_multiplier": 0.1}
for name in ("deepseek32", "glm-dsa"):
    layer = llama_cpp.layers(name, YARN)[0]
    magnitude = layer["rope"]["attn"] * (1 + 0.1 * math.log(4))  # ggml multiplies by YaRN's own
    print(f"{name}: cos and sin times {magnitude:.4f}, scale of scores {layer['scale'] * math.sqrt(96):.4f} / sqrt(96)")
PY
expect <<'OUT'
deepseek32: cos and sin times 1.0000, scale of scores 1.2965 / sqrt(96)
glm-dsa: cos and sin times 1.1386, scale of scores 1.2965 / sqrt(96)
OUT
