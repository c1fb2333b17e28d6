#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: mlx 0.32.4, on the CPU.
# Guess:   nn.SinusoidalPositionalEncoding(d) is the table of Vaswani et al.: amplitude 1, frequencies 10000^(-2i/d).
# Seen:    its amplitude is sqrt(2/d), and its frequencies are 10000^(-i/(d/2-1)), from 1 to 1e-4 with both ends.
# Matters: the table of Vaswani et al. (and of posenc) is min_freq=10000 ** (2 / d - 1), scale=1.
. "$(dirname "$0")/common.sh"

python_packages mlx[cpu]==0.32.4 mlx-cpu==0.32.4 numpy==2.4.6
python_program <<'PY'
import mlx.core as mx, mlx.nn as nn, numpy as np

mx.set_default_device(mx.cpu)
d = 128
table = np.array(nn.SinusoidalPositionalEncoding(d)(mx.arange(3)))
i = np.arange(d // 2)
print("mlx", mx.__version__)
print("cos of position 0: %.3f, sqrt(2/d): %.3f" % (table[0, -1], np.sqrt(2 / d)))
for name, frequencies in (("10000^(-2i/d)", 10000.0 ** (-2 * i / d)), ("10000^(-i/(d/2-1))", 10000.0 ** (-i / (d // 2 - 1)))):
    print(name, np.allclose(table[2, : d // 2] / np.sqrt(2 / d), np.sin(2 * frequencies), atol=1e-4))
PY
expect <<'OUT'
mlx 0.32.4
cos of position 0: 0.125, sqrt(2/d): 0.125
10000^(-2i/d) False
10000^(-i/(d/2-1)) True
OUT
