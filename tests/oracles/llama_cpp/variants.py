# SPDX-License-Identifier: MIT
"""Changes of keys and tensors that every architecture is recorded with."""
import math

LINEAR = {".rope.scaling.type": "linear", ".rope.scaling.factor": 4.0}
YARN = {".rope.scaling.type": "yarn", ".rope.scaling.factor": 4.0, ".rope.scaling.original_context_length": 1024,
        ".rope.freq_base": 50000.0}
WINDOW = {".attention.sliding_window": 16}
LONG = {".rope.scaling.original_context_length": 1024, ".rope.scaling.attn_factor": 1.1875}
LIST = [1, 1, 0, 1, 0, 1, 1, 0]

# Name: (keys, names of tensors of divisors, context, first position).
VARIANTS = {
    "plain": ({}, (), 128, 0),
    "base": ({".rope.freq_base": 500000.0}, (), 128, 0),
    "far": ({}, (), 128, 16370),
    "linear": (LINEAR, (), 128, 0),
    "linear-old": ({".rope.scale_linear": 4.0}, (), 128, 0),
    "none": ({".rope.scaling.type": "none", ".rope.scaling.factor": 4.0}, (), 128, 0),
    "yarn": (YARN, (), 128, 0),
    "yarn-length": (YARN | {".rope.scaling.original_context_length": None}, (), 128, 0),
    "yarn-attn": (YARN | {".rope.scaling.attn_factor": 0.75}, (), 128, 0),
    "yarn-log": (YARN | {".rope.scaling.yarn_log_multiplier": 0.1}, (), 128, 0),
    "yarn-log-07": (YARN | {".rope.scaling.yarn_log_multiplier": 0.0707}, (), 128, 0),
    "yarn-betas": (YARN | {".rope.scaling.yarn_beta_fast": 16.0, ".rope.scaling.yarn_beta_slow": 2.0}, (), 128, 0),
    "yarn-fast-32": (YARN | {".rope.scaling.yarn_beta_fast": 32.0}, (), 128, 0),
    "yarn-ext": (YARN | {".rope.scaling.yarn_ext_factor": 0.5}, (), 128, 0),
    "yarn-attn-2": (YARN | {".rope.scaling.yarn_attn_factor": 0.75}, (), 128, 0),
    "attn": ({".rope.scaling.attn_factor": 0.75}, (), 128, 0),
    "partial": ({".rope.dimension_count": 16}, (), 128, 0),
    "partial-yarn": (YARN | {".rope.dimension_count": 16}, (), 128, 0),
    "freqs": ({}, ("rope_freqs.weight",), 128, 0),
    "freqs-linear": (LINEAR, ("rope_freqs.weight",), 128, 0),
    "long-below": (LONG, ("rope_factors_long.weight", "rope_factors_short.weight"), 512, 0),
    "long-above": (LONG, ("rope_factors_long.weight", "rope_factors_short.weight"), 2048, 0),
    "longrope-above": (LONG | {".rope.scaling.type": "longrope"},
                       ("rope_factors_long.weight", "rope_factors_short.weight"), 2048, 0),
    "window": (WINDOW, (), 128, 0),
    "window-0": ({".attention.sliding_window": 0}, (), 128, 0),
    "window-3": (WINDOW | {".attention.sliding_window_pattern": 3}, (), 128, 0),
    "window-list": (WINDOW | {".attention.sliding_window_pattern": LIST}, (), 128, 0),
    "window-base": (WINDOW | {".rope.freq_base": 300000.0, ".rope.freq_base_swa": 20000.0}, (), 128, 0),
    "window-global-base": (WINDOW | {".rope.freq_base": 300000.0}, (), 128, 0),
    "window-linear": (WINDOW | LINEAR, (), 128, 0),
    "window-yarn": (WINDOW | YARN, (), 128, 0),
    "window-attn": (WINDOW | {".rope.scaling.attn_factor": 0.75}, (), 128, 0),
    "window-partial": (WINDOW | {".rope.dimension_count_swa": 32}, (), 128, 0),
    "softcap": ({".attn_logit_softcapping": 20.0}, (), 128, 0),
    "scale": ({".attention.scale": 0.25}, (), 128, 0),
    "output-scale": ({".attention.output_scale": 0.25}, (), 128, 0),
    "temperature": ({".attention.temperature_scale": 0.125, ".attention.temperature_length": 16}, (), 128, 0),
    "temperature-trained": ({".attention.temperature_scale": 0.125, ".context_length": 64}, (), 128, 120),
    "sections": ({".rope.dimension_sections": [4, 6, 6, 0]}, (), 128, 0),
    "sections-4": ({".rope.dimension_sections": [4, 4, 4, 4]}, (), 128, 0),
    "alibi": ({".attention.max_alibi_bias": 8.0}, (), 128, 0),
    "unturned": ({".rope.scaling.finetuned": False}, (), 128, 0),
    "interval-2": ({".full_attention_interval": 2}, (), 128, 0),
    "depth-12": (WINDOW | {".block_count": 12}, (), 128, 0),
    "depth-32": (WINDOW | {".block_count": 32}, (), 128, 0),
    "depth-40": (WINDOW | {".block_count": 40}, (), 128, 0),
    "depth-46": (WINDOW | {".block_count": 46}, (), 128, 0),
    "depth-48": (WINDOW | {".block_count": 48}, (), 128, 0),
    "depth-62": (WINDOW | {".block_count": 62}, (), 128, 0),
    "depth-64": (WINDOW | {".block_count": 64}, (), 128, 0),
}


def divisors(name, count):
    """The values of a tensor: powers of two times small integers, which float32 holds exactly."""
    step = {"rope_freqs.weight": 8, "rope_factors_long.weight": 4, "rope_factors_short.weight": 16}[name]
    return [1 + math.floor(i * i / step) / 4 for i in range(count)]
