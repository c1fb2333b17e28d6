#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: @node-llama-cpp/linux-x64 3.22.1, which is llama.cpp v0.5.0.
# Guess:   attention.sliding_window 0 means that there is no window, as in Gemma 3.
# Seen:    in gpt-oss, the layers that would have a window see no key at all. In Gemma 3 they see every key.
# Matters: posenc rejects such a file of gpt-oss.
. "$(dirname "$0")/llama_cpp.sh"

llama_program <<'PY'
import llama_cpp

for architecture in ("gpt-oss", "gemma3"):
    layers = llama_cpp.layers(architecture, {".attention.sliding_window": 0})
    seen = [{"x": "no key"}.get(layer["sees"], layer["sees"]) for layer in layers[:2]]
    print(f"{architecture}: query 39 sees {seen[0]} in layer 0, and {seen[1]} in layer 1")
PY
expect <<'OUT'
gpt-oss: query 39 sees no key in layer 0, and 0-39 in layer 1
gemma3: query 39 sees 0-39 in layer 0, and 0-39 in layer 1
OUT
