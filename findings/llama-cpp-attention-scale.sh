#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: @node-llama-cpp/linux-x64 3.22.1, which is llama.cpp v0.5.0.
# Guess:   attention.scale, a key of every architecture, is the scale of scores.
# Seen:    granite reads it; llama, qwen3 and gemma3 ignore it without a message.
# Matters: posenc rejects the key where it is ignored, unless it has the value that is used anyway.
. "$(dirname "$0")/llama_cpp.sh"

llama_program <<'PY'
import llama_cpp

for architecture in ("granite", "llama", "qwen3", "gemma3"):
    print(architecture, "scales scores by", llama_cpp.layers(architecture, {".attention.scale": 0.25})[0]["scale"])
PY
expect <<'OUT'
granite scales scores by 0.25
llama scales scores by 0.125
qwen3 scales scores by 0.125
gemma3 scales scores by 0.125
OUT
