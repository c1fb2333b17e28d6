#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: @node-llama-cpp/linux-x64 3.22.1, which is llama.cpp v0.5.0.
# Guess:   a tensor rope_freqs.weight (Llama 3's scaling) that the loader accepts divides the frequencies.
# Seen:    falcon-h1, llada, pangu-embedded and cogvlm load it and rotate without it. qwen2 does not load such a file.
# Matters: long contexts run unscaled, without a message. posenc rejects the tensor for these architectures.
. "$(dirname "$0")/llama_cpp.sh"

llama_program <<'PY'
import llama_cpp

for name in ("llama", "falcon-h1", "llada", "pangu-embedded", "cogvlm"):
    layer = llama_cpp.layers(name, tensors={"rope_freqs.weight": ([32], [8.0] * 32)})[0]
    print(f"{name}: divisors '{layer['rope']['factors']}'")
PY
expect <<'OUT'
llama: divisors 'rope_freqs.weight'
falcon-h1: divisors ''
llada: divisors ''
pangu-embedded: divisors ''
cogvlm: divisors ''
OUT
