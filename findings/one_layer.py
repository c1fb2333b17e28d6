# SPDX-License-Identifier: MIT
"""Writes a CTranslate2 decoder of one layer, whose only effect is attention, and computes it in NumPy."""

import tempfile

import ctranslate2
import numpy as np
from ctranslate2.specs import TransformerDecoderModelSpec

WIDTH = 8


def decoder(change, **options):
    """Returns a generator and its weights, with one head of 8 channels. `change` completes the attention's spec."""
    random = np.random.default_rng(1)
    weights = {name: random.standard_normal(shape).astype("f") / 2
               for name, shape in dict(tokens=(WIDTH, WIDTH), qkv=(3 * WIDTH, WIDTH), output=(WIDTH, WIDTH), logits=(WIDTH, WIDTH)).items()}
    spec = TransformerDecoderModelSpec.from_config(1, 1, rms_norm=True, rotary_dim=WIDTH, rotary_interleave=False, **options)
    top, layer = spec.decoder, spec.decoder.layer[0]
    top.scale_embeddings = False
    top.embeddings.weight, top.projection.weight = weights["tokens"], weights["logits"]
    for norm in (top.layer_norm, layer.self_attention.layer_norm, layer.ffn.layer_norm):
        norm.gamma = np.ones(WIDTH, "f")
    layer.self_attention.linear[0].weight, layer.self_attention.linear[1].weight = weights["qkv"], weights["output"]
    layer.ffn.linear_0.weight = layer.ffn.linear_1.weight = np.zeros((WIDTH, WIDTH), "f")
    change(layer.self_attention)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = "t0", "t1", "t2"
    spec.register_vocabulary(["t%d" % i for i in range(WIDTH)])
    spec.validate()
    folder = tempfile.mkdtemp(dir=".")
    spec.save(folder)
    return ctranslate2.Generator(folder, compute_type="float32"), weights


def logits(generator, ids):
    return np.array(generator.forward_batch([["t%d" % i for i in ids]]))[0]


def expected(weights, ids, frequencies, factor=1.0):
    """Returns the logits if attention rotates halves by `frequencies`, and multiplies by an attention factor."""
    normed = lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)
    x = weights["tokens"][ids].astype("d")
    q, k, v = np.split(normed(x) @ weights["qkv"].T, 3, 1)
    angles = np.arange(len(ids))[:, None] * frequencies
    c, s, half = factor * np.cos(angles), factor * np.sin(angles), WIDTH // 2
    q, k = (np.concatenate([y[:, :half] * c - y[:, half:] * s, y[:, :half] * s + y[:, half:] * c], 1) for y in (q, k))
    scores = np.where(np.tri(len(ids), dtype=bool), q @ k.T / np.sqrt(WIDTH), -np.inf)
    p = np.exp(scores - scores.max(1, keepdims=True))
    return normed(x + p / p.sum(1, keepdims=True) @ v @ weights["output"].T) @ weights["logits"].T
