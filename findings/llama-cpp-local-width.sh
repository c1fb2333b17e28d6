#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: @node-llama-cpp/linux-x64 3.22.1, which is llama.cpp v0.5.0.
# Guess:   rope.dimension_count_swa is the rotary width of layers with a window.
# Seen:    in Gemma 3 it is that of every layer, because the graph takes the width of layer 0.
# Matters: posenc rejects the key for architectures whose graph has one width.
. "$(dirname "$0")/llama_cpp.sh"

llama_program <<'PY'
import llama_cpp

layers = llama_cpp.layers("gemma3", {".attention.sliding_window": 16, ".rope.dimension_count_swa": 32})
for number in (0, 5):
    print(f"layer {number}: sees {layers[number]['sees']}, rotates {layers[number]['rope']['n']} of 64 channels")
PY
expect <<'OUT'
layer 0: sees 24-39, rotates 32 of 64 channels
layer 5: sees 0-39, rotates 32 of 64 channels
OUT
