#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: levanter 1.2.dev1644, on haliax 1.4.dev453 and jax 0.10.2.
# Guess:   rope_type "yarn" of a Hugging Face configuration gives the frequencies of YaRN: the fast ones unscaled, the slow
#          ones divided by the factor.
# Seen:    positions are divided by the factor too. No frequency is unscaled, the slow ones are divided by its square, and
#          the ramp lies at half of its pairs. The attention factor is the square root of YaRN's.
# Matters: neither posenc's YarnScaling nor a model trained elsewhere agrees, from the second token on.
. "$(dirname "$0")/common.sh"

python_packages jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 equinox==0.13.8 haliax==1.4.dev453 draccus==0.11.6
python_packages --no-deps levanter==1.2.dev1644
python_program <<'PY'
import importlib.metadata, math, sys, types
import haliax as hax, numpy as np

for name in ("levanter", "levanter.layers"):  # without their requirements
    package = types.ModuleType(name)
    package.__path__ = [str(importlib.metadata.distribution("levanter").locate_file(name.replace(".", "/")))]
    sys.modules[name] = package
from levanter.layers.rotary import RotaryEmbeddingsConfig

pairs, factor = 64, 4.0
rule = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": 4096}
rope = RotaryEmbeddingsConfig.from_hf_config(10000.0, rule).build(hax.Axis("channels", 2 * pairs))
ones = np.repeat(np.array([1, 0], "f"), pairs)
seen = np.array(rope(hax.named(ones, "channels"), hax.named(np.array([1]), "tokens")).array).reshape(2, pairs)
divisors = 10000.0 ** (-np.arange(pairs) / pairs) / np.arctan2(seen[1], seen[0])
ramp = [pairs * math.log(4096 / (turns * 2 * math.pi)) / math.log(10000) for turns in (32, 1)]

print("levanter", importlib.metadata.version("levanter"))
print("divisors of the pairs 0, 10, 23, 63:", np.round(divisors[[0, 10, 23, 63]], 2).tolist())
print("pairs of the ramp:", np.flatnonzero((divisors > 4.01) & (divisors < 15.99))[[0, -1]].tolist(), "expected", [math.floor(ramp[0]) + 1, math.ceil(ramp[1]) - 1])
print("attention factor: %.4f" % np.hypot(*seen[:, 0]), "expected %.4f" % (0.1 * math.log(factor) + 1))
PY
expect <<'OUT'
levanter 1.2.dev1644
divisors of the pairs 0, 10, 23, 63: [4.0, 4.0, 16.0, 16.0]
pairs of the ramp: [11, 22] expected [21, 45]
attention factor: 1.0671 expected 1.1386
OUT
