#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Package: keras-hub 0.32.0 on keras 3.15.1, backend jax 0.10.2.
# Guess:   positions beyond the table of PositionEmbedding, and tokens beyond the cache of CachedMultiHeadAttention, are
#          errors.
# Seen:    slices are moved to fit. start_index 6 of a table of 8 rows gives four tokens the rows 4 to 7, and a token
#          beyond the cache overwrites its last entry.
# Matters: generation goes on with wrong positions. posenc's `Learned` throws, and its caches grow or throw.
. "$(dirname "$0")/common.sh"

python_packages jax==0.10.2 jaxlib==0.10.2 keras==3.15.1 numpy==2.4.6 regex tokenizers sentencepiece kagglehub packaging
python_packages --no-deps keras-hub==0.32.0
export KERAS_BACKEND=jax
python_program 2>/dev/null <<'PY'
import keras_hub, numpy as np

print("keras-hub", keras_hub.__version__)
table = keras_hub.layers.PositionEmbedding(sequence_length=8)
table.build((1, 8, 1))
table.set_weights([np.arange(8.0)[:, None]])
for start in (4, 6):
    print(f"rows of four tokens from position {start} on:", np.array(table(np.zeros((1, 4, 1)), start_index=start))[0, :, 0])

attention = keras_hub.layers.CachedMultiHeadAttention(1, 1, use_bias=False)
attention.build((1, 1, 1), (1, 1, 1))
attention.set_weights([np.ones_like(w) for w in attention.get_weights()])
cache = np.zeros((1, 2, 3, 1, 1))
for token in range(5):
    x = np.full((1, 1, 1), token + 1.0)
    _, cache = attention(x, value=x, cache=cache, cache_update_index=token)
print("keys of 1 to 5 in a cache of 3:", np.array(cache)[0, 0, :, 0, 0])
PY
expect <<'OUT'
keras-hub 0.32.0
rows of four tokens from position 4 on: [4. 5. 6. 7.]
rows of four tokens from position 6 on: [4. 5. 6. 7.]
keys of 1 to 5 in a cache of 3: [1. 2. 5.]
OUT
