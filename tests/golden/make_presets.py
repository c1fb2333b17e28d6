#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes presets.csv, the truth of interop/presets_golden_test.cpp, with mpmath.

A row is a preset's name, its type of layer, the pair, the position, then inv_freq, cos and sin
without the attention factor, the attention factor and the multiplier of the softmax scale, each as
the nearest double. Lines end with a comma, so that the file is a C++ list as it stands. The models
are written down here once more, from their publications and not from presets.hpp.
"""
import pathlib

from mpmath import ceil, cos, floor, log, mp, mpf, pi, sin

mp.prec = 400

POSITIONS = [0, 1, 4095, 131071, 1048575, -7]


def default(dim, base):
    return [mpf(base) ** (mpf(-2 * i) / dim) for i in range(dim // 2)]


def linear(dim, base, factor):
    return [w / factor for w in default(dim, base)]


def magnitude(factor, k):
    return mpf(k) * log(factor) / 10 + 1


def yarn(dim, base, factor, length, truncate=True):
    def index(rotations):
        return dim * log(length / (2 * pi * rotations)) / (2 * log(base))

    low, high = index(32), index(1)
    if truncate:
        low, high = floor(low), ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    scaled = []
    for i, w in enumerate(default(dim, base)):
        ramp = min(max((i - low) / (high - low), 0), 1)
        scaled.append(w * (1 - ramp) + w / factor * ramp)
    return scaled


def llama3(dim, factor):
    scaled = []
    for w in default(dim, 500000):
        rotations = 8192 * w / (2 * pi)
        kept = min(max((rotations - 1) / (4 - 1), 0), 1)
        scaled.append(w * kept + w / factor * (1 - kept))
    return scaled


def proportional(dim, base, turning):
    return default(dim, base)[:turning] + [mpf(0)] * (dim // 2 - turning)


FULL, SLIDING = "full_attention", "sliding_attention"
# Name, type of layer, frequencies, and where they are not 1: attention factor, softmax multiplier.
MODELS = [
    ("gptj_6b", "", default(64, 10000)),
    ("gpt_neox_20b", "", default(24, 10000)),
    ("pythia_70m", "", default(16, 10000)),
    ("pythia_6_9b", "", default(32, 10000)),
    ("chatglm_6b", "", default(64, 10000)),
    ("chatglm2_6b", "", default(64, 10000)),
    ("glm4_9b", "", default(64, 10000)),
    ("llama2_7b", "", default(128, 10000)),
    ("llama3_8b", "", default(128, 500000)),
    ("llama3_1_8b", "", llama3(128, 8)),
    ("llama3_2_1b", "", llama3(64, 32)),
    ("llama3_2_3b", "", llama3(128, 32)),
    ("mistral_7b_v0_1", "", default(128, 10000)),
    ("mistral_7b_v0_2", "", default(128, 1000000)),
    ("qwen2_5_7b", "", default(128, 1000000)),
    ("qwen2_5_7b_yarn", "", yarn(128, 1000000, 4, 32768), magnitude(4, 1)),
    ("qwen2_vl_2b", "", default(128, 1000000)),
    ("qwen3_vl_2b", "", default(128, 5000000)),
    ("deepseek_v2", "", yarn(64, 10000, 40, 4096), 1, magnitude(40, 0.707) ** 2),
    ("deepseek_v3", "", yarn(64, 10000, 40, 4096), 1, magnitude(40, 1) ** 2),
    ("deepseek_v4_flash", SLIDING, default(64, 10000)),
    ("deepseek_v4_flash", "compressed", yarn(64, 160000, 16, 65536)),
    ("gpt_oss", "", yarn(64, 150000, 32, 4096, truncate=False), magnitude(32, 1)),
    ("gemma2_9b", "", default(256, 10000)),
    ("gemma2_27b", "", default(128, 10000)),
    ("gemma3_1b", FULL, default(256, 1000000)),
    ("gemma3_1b", SLIDING, default(256, 10000)),
    ("gemma3_4b", FULL, linear(256, 1000000, 8)),
    ("gemma3_4b", SLIDING, default(256, 10000)),
    ("gemma4", FULL, proportional(512, 1000000, 64)),
    ("gemma4", SLIDING, default(256, 10000)),
    ("olmo_7b", "", default(128, 10000)),
    ("olmo2_1b", "", default(128, 500000)),
]


def rows():
    for name, layer, inv_freq, *factors in MODELS:
        factors += [1] * (2 - len(factors))
        pairs = len(inv_freq)
        for pair in (0, 1, pairs // 3, pairs // 2, pairs - 1):
            for position in POSITIONS:
                angle = position * inv_freq[pair]
                numbers = [pair, position, inv_freq[pair], cos(angle), sin(angle), *factors]
                cells = [f'"{name}"', f'"{layer}"'] + [repr(float(x)) for x in numbers]
                yield ", ".join(cells) + ",\n"


with open(pathlib.Path(__file__).with_name("presets.csv"), "w") as file:
    file.write("// name, layer type, pair, position, inv_freq, cos, sin, attention factor, softmax\n")
    file.writelines(rows())
