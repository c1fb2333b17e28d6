#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times the Python module beside eager numpy and PyTorch, on one thread, and draws a figure.
Attention of numpy and PyTorch depends on their BLAS: Debian installs a slow one unless libopenblas0 is there.

    PYTHONPATH=build/native/examples/python examples/python/compare.py --picture times.png

--smoke runs each kernel once on few tokens. Results are compared, times never."""
import argparse
import os
import subprocess
import time

for library in "OMP", "OPENBLAS", "MKL":
    os.environ[library + "_NUM_THREADS"] = "1"  # read when numpy and PyTorch are imported

import numpy as np
import posenc

try:
    import torch

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
except ImportError:
    torch = None

HEADS, KV_HEADS, DIM = 32, 8, 128
random = np.random.default_rng(0)
rope = posenc.Rope("Unscaled", pairing="half", rotary_dim=DIM, base=500000)


def normal(*shape):
    return random.standard_normal(shape, np.float32)


def rotation_kernels(tokens):
    """Returns kernels that rotate [1, S, 32, 128]. Those of numpy and PyTorch get their cos and sin;
    posenc computes them in each call."""
    x = normal(1, tokens, HEADS, DIM)
    cos, sin = (np.concatenate([t, t], -1)[:, :, None] for t in rope.cos_sin(np.arange(tokens)))
    out = np.empty_like(x)

    def rotate_numpy():
        half = np.concatenate([-x[..., DIM // 2:], x[..., :DIM // 2]], -1)
        return x * cos + half * sin

    kernels = {"posenc": lambda: rope.rotate(x, 0, out), "numpy": rotate_numpy}
    if torch is not None:
        tensors = [torch.from_numpy(t) for t in (x, cos, sin)]

        def rotate_torch(x, cos, sin):
            half = torch.cat([-x[..., DIM // 2:], x[..., :DIM // 2]], -1)
            return x * cos + half * sin

        kernels["PyTorch"] = lambda: rotate_torch(*tensors)
        narrow = [t.bfloat16() for t in tensors]
        out_narrow = torch.empty_like(narrow[0])
        kernels["posenc, bfloat16"] = lambda: rope.rotate(narrow[0], 0, out_narrow)
        kernels["PyTorch, bfloat16"] = lambda: rotate_torch(*narrow)
    return kernels


def attention_kernels(tokens):
    """Returns kernels of causal attention over `tokens` keys, for as many queries."""
    q, k, v = (normal(1, tokens, heads, DIM) for heads in (HEADS, KV_HEADS, KV_HEADS))
    mask = np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
    out = np.empty_like(q)

    def attend_numpy():
        qs = q.swapaxes(1, 2)
        ks, vs = (np.repeat(x.swapaxes(1, 2), HEADS // KV_HEADS, 1) for x in (k, v))
        scores = qs @ ks.swapaxes(2, 3) * np.float32(DIM**-0.5) + mask
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True) @ vs).swapaxes(1, 2)

    kernels = {"posenc": lambda: posenc.attention(q, k, v, causal="bottom_right", out=out),
               "numpy": attend_numpy}
    if torch is not None:
        tq, tk, tv, tmask = (torch.from_numpy(t) for t in (q, k, v, mask))

        def attend_torch():
            qs = tq.transpose(1, 2)
            ks, vs = (x.transpose(1, 2).repeat_interleave(HEADS // KV_HEADS, 1) for x in (tk, tv))
            scores = qs @ ks.transpose(2, 3) * DIM**-0.5 + tmask
            return (torch.softmax(scores, -1) @ vs).transpose(1, 2)

        kernels["PyTorch"] = attend_torch
    return kernels


def as_float64(x):
    return np.asarray(x.float() if torch is not None and torch.is_tensor(x) else x, np.float64)


def measure(kernels, rounds, seconds):
    """Returns the times of `rounds` rounds, in which the kernels take turns."""
    exact = as_float64(kernels["posenc"]())
    times, calls = {}, {}
    for name, kernel in kernels.items():
        tolerance = 0.05 if "bfloat16" in name else 1e-5
        np.testing.assert_allclose(as_float64(kernel()), exact, rtol=tolerance, atol=tolerance)
        start = time.perf_counter()
        kernel()
        calls[name] = max(1, int(seconds / (time.perf_counter() - start)))
        times[name] = []
    for _ in range(rounds):
        for name, kernel in kernels.items():
            start = time.perf_counter()
            for _ in range(calls[name]):
                kernel()
            times[name].append((time.perf_counter() - start) / calls[name])
    return times


def print_table(title, results):
    print(f"{title}: microseconds, median (least to most)")
    names = list(next(iter(results.values())))
    print("tokens" + "".join(f"{name:>40}" for name in names))
    for tokens, times in results.items():
        cells = [f"{np.median(t) * 1e6:,.1f} ({min(t) * 1e6:,.1f} to {max(t) * 1e6:,.1f})" for t in times.values()]
        print(f"{tokens:6}" + "".join(f"{cell:>40}" for cell in cells))


def draw(file, title, results):
    """Draws microseconds per token by gnuplot."""
    script = ["set terminal pngcairo size 900,440 font 'sans,11'", f"set output '{file}'", "set logscale xy", "set grid",
              "set key outside right", "set xlabel 'tokens'", "set ylabel 'microseconds per token'", f"set title '{title}'"]
    colours = ["#0072b2", "#e69f00", "#009e73", "#56b4e9", "#999999"]
    names = list(next(iter(results.values())))
    script.append("plot " + ", ".join(
        f"'-' using 1:2 with linespoints pointtype 7 linewidth 2 linecolor rgb '{colour}' title '{name}'"
        for name, colour in zip(names, colours)))
    for name in names:
        script += [f"{tokens} {np.median(times[name]) / tokens * 1e6}" for tokens, times in results.items()] + ["e"]
    subprocess.run(["gnuplot"], input="\n".join(script) + "\n", text=True, check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true", help="few tokens, one round")
    parser.add_argument("--picture", metavar="FILE", help="draw the medians of rotation into this PNG, by gnuplot")
    arguments = parser.parse_args()
    rounds, seconds = (1, 0) if arguments.smoke else (9, 0.1)
    lengths = {"Rotation": [1, 3], "Attention": [1, 40]} if arguments.smoke else {
        "Rotation": [1, 16, 128, 1024, 4096], "Attention": [16, 128, 512, 1024]}
    titles = {"Rotation": f"Rotation of {HEADS} x {DIM}",
              "Attention": f"Causal attention, {HEADS} heads, {KV_HEADS} KV heads, {DIM} channels"}
    makers = {"Rotation": rotation_kernels, "Attention": attention_kernels}
    for name, make in makers.items():
        results = {s: measure(make(s), rounds, seconds) for s in lengths[name]}
        print_table(titles[name], results)
        if arguments.picture and name == "Rotation":
            draw(arguments.picture, titles[name], results)


if __name__ == "__main__":
    main()
