#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: ctranslate2 4.8.5.
# Guess:   a specification with RotaryScalingType.Llama3 stores rotary_scaling_factor with the two frequency factors.
# Seen:    the factor is dropped: only Linear stores it. The model runs unscaled, whatever the factor was. The package's
#          converter for Llama builds its specification by this call, too.
# Matters: a converted Llama 3.1 is right in short texts alone. Compare beyond the trained length.
. "$(dirname "$0")/common.sh"

python_packages ctranslate2==4.8.5 numpy==2.4.6
python_program <<'PY'
import ctranslate2, numpy as np, one_layer
from ctranslate2.specs.attention_spec import RotaryScalingType


def complete(attention):
    attention.rotary_low_freq_factor, attention.rotary_high_freq_factor = np.float32(1), np.float32(4)


print("ctranslate2", ctranslate2.__version__)
ids = [3, 5, 7, 1, 4, 6, 2, 3, 7, 5] * 4
plain = 100.0 ** (-np.arange(4) / 4)
turns = 64 * plain / (2 * np.pi)  # in the trained length of 64: below 1 divided, above 4 kept, a ramp between them
for factor in (4.0, 32.0):
    generator, weights = one_layer.decoder(complete, rotary_base=100, rotary_scaling_type=RotaryScalingType.Llama3, rotary_scaling_factor=factor,
                                           original_max_position_embeddings=64, max_position_embeddings=1024)
    kept = np.clip((turns - 1) / 3, 0, 1)
    for name, frequencies in (("unscaled", plain), ("scaled", plain * (kept + (1 - kept) / factor))):
        print("factor %g is as" % factor, name, np.allclose(one_layer.logits(generator, ids), one_layer.expected(weights, ids, frequencies), atol=1e-3))
PY
expect <<'OUT'
ctranslate2 4.8.5
factor 4 is as unscaled True
factor 4 is as scaled False
factor 32 is as unscaled True
factor 32 is as scaled False
OUT
