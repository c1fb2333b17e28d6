#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: ctranslate2 4.8.5.
# Guess:   LongRoPE (RotaryScalingType.Su) picks short or long factors by the length of each text.
# Seen:    one text beyond the trained length turns a generator to the long factors for good: the same short text then
#          has other logits.
# Matters: results depend on what was run before. In posenc `frequencies(rule, length)` depends on the length alone.
. "$(dirname "$0")/common.sh"

python_packages ctranslate2==4.8.5 numpy==2.4.6
python_program <<'PY'
import ctranslate2, numpy as np, one_layer
from ctranslate2.specs.attention_spec import RotaryScalingType

short, long = np.array([1, 1.5, 1.2, 1.1], "f"), np.array([1, 2, 3, 4], "f")
trained, maximum = 2048, 4096


def complete(attention):
    attention.rotary_scaling_short_factor, attention.rotary_scaling_long_factor = short, long


generator, weights = one_layer.decoder(complete, rotary_base=100, rotary_scaling_type=RotaryScalingType.Su,
                                       original_max_position_embeddings=trained, max_position_embeddings=maximum)
ids = [3, 5, 7, 1, 4, 6, 2, 3, 7, 5]
factor = np.sqrt(1 + np.log(maximum / trained) / np.log(trained))


def used():
    seen = one_layer.logits(generator, ids)
    return [name for name, divisors in (("short", short), ("long", long))
            if np.allclose(seen, one_layer.expected(weights, ids, 100.0 ** (-np.arange(4) / 4) / divisors, factor), atol=1e-3)]


print("ctranslate2", ctranslate2.__version__)
print("10 tokens:", used())
one_layer.logits(generator, ids * 206)
print("after 2060 tokens, the same 10 tokens:", used())
PY
expect <<'OUT'
ctranslate2 4.8.5
10 tokens: ['short']
after 2060 tokens, the same 10 tokens: ['long']
OUT
