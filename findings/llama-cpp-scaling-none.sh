#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: @node-llama-cpp/linux-x64 3.22.1, which is llama.cpp v0.5.0.
# Guess:   rope.scaling.type "none" switches scaling off, also if the file has a factor.
# Seen:    in gpt-oss, layers with a window are still scaled by the factor; the others are not.
# Matters: posenc reads no scaling from such a file. The same holds if a program asks for no scaling of a scaled file.
. "$(dirname "$0")/llama_cpp.sh"

llama_program <<'PY'
import llama_cpp

keys = {".rope.scaling.type": "none", ".rope.scaling.factor": 4.0, ".attention.sliding_window": 16}
for number, layer in enumerate(llama_cpp.layers("gpt-oss", keys)[:2]):
    print(f"layer {number}: sees {layer['sees']}, positions are multiplied by {layer['rope']['scale']}")
PY
expect <<'OUT'
layer 0: sees 24-39, positions are multiplied by 0.25
layer 1: sees 0-39, positions are multiplied by 1
OUT
