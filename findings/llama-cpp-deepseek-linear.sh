#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: @node-llama-cpp/linux-x64 3.22.1, which is llama.cpp v0.5.0.
# Guess:   linear scaling divides positions and leaves scores alone.
# Seen:    in deepseek2 it multiplies scores by (1 + 0.1 ln 4)^2 for a factor of 4, YaRN's magnitude squared.
# Matters: posenc rejects linear scaling of this architecture.
. "$(dirname "$0")/llama_cpp.sh"

llama_program <<'PY'
import llama_cpp

plain = llama_cpp.layers("deepseek2")[0]
linear = llama_cpp.layers("deepseek2", {".rope.scaling.type": "linear", ".rope.scaling.factor": 4.0})[0]
print("scores are multiplied by", plain["scale"], "without scaling")
print("and by", linear["scale"], "with linear scaling by", linear["rope"]["scale"])
PY
expect <<'OUT'
scores are multiplied by 0.102062 without scaling
and by 0.132321 with linear scaling by 0.25
OUT
