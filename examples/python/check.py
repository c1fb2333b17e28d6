#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares the Python module with plain definitions in numpy, and with PyTorch where it is installed.

    PYTHONPATH=build/native/examples/python examples/python/check.py
"""
import json
import tempfile
import unittest
from pathlib import Path

import numpy as np
import posenc

try:
    import torch
except ImportError:
    torch = None

CONFIGS = Path(__file__).resolve().parent.parent / "configs"
random = np.random.default_rng(0)


def plain_rotation(x, positions, inv_freq, pairing, factor=1):
    """Rotates x [..., S, H, D] in double by the definition."""
    y, pairs = np.array(x, np.float64), len(inv_freq)
    angles = np.multiply.outer(np.asarray(positions, np.float64), inv_freq)[..., None, :]
    first = slice(0, pairs) if pairing == "half" else slice(0, 2 * pairs, 2)
    second = slice(pairs, 2 * pairs) if pairing == "half" else slice(1, 2 * pairs, 2)
    a, b = y[..., first].copy(), y[..., second].copy()
    y[..., first] = factor * (np.cos(angles) * a - np.sin(angles) * b)
    y[..., second] = factor * (np.sin(angles) * a + np.cos(angles) * b)
    return y


def plain_attention(q, k, v, offset, window=None, slopes=None):
    """Computes causal attention [B, S, H, D] in double; query i is aligned with key i + offset."""
    q, k, v = (np.asarray(x, np.float64).swapaxes(1, 2) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    distance = np.arange(q.shape[2])[:, None] + offset - np.arange(k.shape[2])
    if slopes is not None:
        scores = scores - np.asarray(slopes)[:, None, None] * np.abs(distance)
    scores[..., (distance < 0) | (distance >= (window or np.inf))] = -np.inf
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(1, 2)


def normal(*shape):
    return random.standard_normal(shape, np.float32)


class Rotation(unittest.TestCase):
    def test_both_pairings_and_all_forms_of_positions(self):
        ids = random.integers(0, 10**6, (2, 5))
        for pairing in "half", "interleaved":
            rope = posenc.Rope("Unscaled", pairing=pairing, rotary_dim=16, base=10000)
            inv_freq = 10000.0 ** (-np.arange(0, 16, 2) / 16)
            np.testing.assert_allclose(rope.inv_freq, inv_freq, rtol=1e-15)
            forms = [ids, ids.astype(np.int32), ids[1], 70000]
            plain = [ids, ids, ids[1], 70000 + np.arange(5)]
            for positions, values in zip(forms, plain):
                x = normal(2, 5, 3, 24)  # the last 8 channels are not rotated
                expected = plain_rotation(x, values, inv_freq, pairing)
                self.assertIs(rope.rotate(x, positions), x)
                np.testing.assert_allclose(x, expected, atol=1e-6)

    def test_strides_and_output(self):
        rope = posenc.Rope("Unscaled", pairing="half", rotary_dim=8, base=500000)
        memory = normal(2, 3, 6, 8)  # [B, H, S, D]
        x, copy = memory.swapaxes(1, 2)[:, :, 1:], memory.copy()
        out = np.zeros((2, 6, 2, 8), np.float32)
        self.assertIs(rope.rotate(x, 3, out), out)
        np.testing.assert_array_equal(memory, copy)
        np.testing.assert_array_equal(rope.rotate(x[1], 3), out[1])  # without an axis of batch rows
        np.testing.assert_array_equal(memory[1, 0], copy[1, 0])
        np.testing.assert_allclose(out, plain_rotation(copy.swapaxes(1, 2)[:, :, 1:], 3 + np.arange(6),
                                                       rope.inv_freq, "half"), atol=1e-6)

    def test_tables(self):
        rope = posenc.Rope("YarnScaling", pairing="half", rotary_dim=64, base=1e6, factor=4,
                           original_max_position=32768)
        self.assertAlmostEqual(rope.attention_factor, 0.1 * np.log(4) + 1)
        cos, sin = rope.cos_sin(np.array([[0, 5], [7, 131071]]))
        angles = np.multiply.outer([[0, 5], [7, 131071]], rope.inv_freq)
        np.testing.assert_allclose(cos, rope.attention_factor * np.cos(angles), atol=1e-7)
        np.testing.assert_allclose(sin, rope.attention_factor * np.sin(angles), atol=1e-7)


class ModelFiles(unittest.TestCase):
    def test_layers_of_a_config(self):
        file = CONFIGS / "gemma-3-4b.json"
        local, far = (posenc.Rope.from_file(str(file), layer=n) for n in (0, 5))
        np.testing.assert_allclose(local.inv_freq, 10000.0 ** (-np.arange(0, 256, 2) / 256), rtol=1e-15)
        np.testing.assert_allclose(far.inv_freq, 1e6 ** (-np.arange(0, 256, 2) / 256) / 8, rtol=1e-15)
        self.assertEqual(far.softmax_scale, 1 / 16)

    def test_faults(self):
        with self.assertRaisesRegex(OSError, "none.json"):
            posenc.Rope.from_file("none.json")
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "config.json"
            text = json.loads((CONFIGS / "gpt-oss-20b.json").read_text())
            file.write_text(json.dumps(text | {"rope_twist": 1}))
            with self.assertRaisesRegex(ValueError, "rope_twist"):
                posenc.Rope.from_file(str(file), layer=0)


class Attention(unittest.TestCase):
    def test_plain_definition(self):
        q, k, v = normal(2, 7, 6, 16), normal(2, 9, 2, 16), normal(2, 9, 2, 16)
        slopes = posenc.alibi_slopes(6)
        np.testing.assert_allclose(slopes, 2.0 ** -np.array([2, 4, 6, 8, 1, 3]))
        for causal, offset in ("bottom_right", 2), ("top_left", 0):
            for window in None, 3:
                for bias in None, slopes:
                    out = posenc.attention(q, k, v, causal=causal, window=window, alibi_slopes=bias)
                    expected = plain_attention(q, k, v, offset, window, bias)
                    np.testing.assert_allclose(out, expected, atol=1e-6)


class Errors(unittest.TestCase):
    def test_exceptions_have_the_message_of_the_library(self):
        rope = posenc.Rope("Unscaled", pairing="half", rotary_dim=8, base=10000)
        x = normal(1, 2, 1, 8)
        before = x.copy()
        for error, words, call in [
            (ValueError, "base must be set", lambda: posenc.Rope("Unscaled", pairing="half", rotary_dim=8)),
            (ValueError, "has no field theta", lambda: posenc.Rope("Unscaled", pairing="half", theta=8)),
            (ValueError, "there is no rule", lambda: posenc.Rope("Unscale", pairing="half")),
            (TypeError, "pairing", lambda: posenc.Rope("Unscaled", rotary_dim=8, base=10000)),
            (ValueError, "pairing", lambda: posenc.Rope("Unscaled", pairing="neox", rotary_dim=8, base=10000)),
            (ValueError, "posenc::Rope::rotate", lambda: rope.rotate(x, np.arange(3))),
            (IndexError, "2305843009213693952", lambda: rope.rotate(x, np.array([0, 2**61]))),
            (TypeError, "x is not float32", lambda: rope.rotate(x.astype(np.float64), 0)),
            (TypeError, "x has no __dlpack__", lambda: rope.rotate([1.0], 0)),
            (TypeError, "positions is not int32", lambda: rope.rotate(x, np.arange(2.0))),
            (ValueError, "strided channels", lambda: rope.rotate(normal(1, 2, 1, 16)[..., ::2], 0)),
            (ValueError, "causal", lambda: posenc.attention(x, x, x, causal="yes")),
            (ValueError, "one per head", lambda: posenc.attention(x, x, x, causal="no", alibi_slopes=[1, 2])),
        ]:
            with self.assertRaisesRegex(error, words):
                call()
        np.testing.assert_array_equal(x, before)


@unittest.skipIf(torch is None, "PyTorch is not installed")
class PyTorch(unittest.TestCase):
    def test_bfloat16_is_rounded_once(self):
        rope = posenc.Rope("Unscaled", pairing="half", rotary_dim=16, base=10000)
        x = torch.from_numpy(normal(1, 5, 3, 16)).bfloat16()
        exact, stored = torch.empty(x.shape), x.clone()
        rope.rotate(x, 1000, exact)
        rope.rotate(stored, torch.arange(1000, 1005))
        self.assertTrue(torch.equal(stored, exact.bfloat16()))
        expected = plain_rotation(x.float().numpy(), 1000 + np.arange(5), rope.inv_freq, "half")
        np.testing.assert_allclose(exact.numpy(), expected, atol=1e-6)

    def test_attention(self):
        q, k, v = (torch.from_numpy(normal(1, 20, heads, 32)) for heads in (8, 2, 2))
        repeat = [x.repeat_interleave(4, 2).transpose(1, 2) for x in (k, v)]
        mask = torch.ones(20, 20, dtype=torch.bool).tril()
        expected = torch.softmax((q.transpose(1, 2) @ repeat[0].transpose(2, 3) / 32**0.5)
                                 .masked_fill(~mask, -torch.inf), -1) @ repeat[1]
        out = torch.empty_like(q)
        posenc.attention(q, k, v, causal="bottom_right", out=out)
        torch.testing.assert_close(out, expected.transpose(1, 2))
        stored = posenc.attention(q, k.bfloat16(), v.bfloat16(), causal="bottom_right")
        exact = posenc.attention(q, k.bfloat16().float(), v.bfloat16().float(), causal="bottom_right")
        np.testing.assert_array_equal(stored, exact)


if __name__ == "__main__":
    unittest.main()
