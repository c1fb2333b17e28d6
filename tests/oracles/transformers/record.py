#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records what the attention of a model type of transformers does with positions, by running it.

    record.py OUT.jsonl [TYPE...]        all model types of AutoConfig, if none is named; lines that OUT has are kept

For each type a small model with random float64 weights is built from the class's own configuration. Layers, widths,
experts, vocabulary and windows are cut; widths of heads and everything else that decides positions are the class's.
Every attention module gets an input that is the same at all positions. Then queries and keys differ between positions
by the rotation and a temperature alone, whatever the code of the class is. Queries, keys and scores are taken from the
product and the softmax that the class calls, so that nothing has to be known about it.

A line of OUT is a type: `given`, the keys that were passed to the class of a text model; `config`, the file that the class writes;
`kinds`, the different facts of layers; `layers`, the kind of each layer, -1 without softmax. Types of text models have
a second line, which has `patch` instead of `config`: keys of YaRN that join both. A kind has

    rotation    null, or {pairs: half or interleaved, offset, width: of head_dim channels those that rotate; base and
                dim, or inv_freq, one number per pair}; checked at all positions, for all heads, and for keys as well
    factor      factor of scores at position 0: scale, times factors of queries and keys, times cos and sin's squared
    plain       the same for channels without rotation, if there are any and it differs
    mask        causal or all; window: number of visible keys with the query's own; chunk: size of chunks
    softcap, sinks, temperature (at positions 1, 7 and 23)

A type without rotation in any layer has its kinds alone, or `given` as well for a vision tower. In a tower an image of few patches
takes the place of the tokens: `order` is that of the patches, `first` the first of them, `axes` has 0 for pairs of rows
and 1 for pairs of columns. A type whose model did not run has `failed`, the error, and
`code`: rotary if modules or buffers of its class have such names. torch runs on one thread.
"""
import importlib
import inspect
import json
import math
import os
import re
import resource
import signal
import sys
import traceback
import warnings

import torch
import transformers
from torch.overrides import TorchFunctionMode
import transformers.models.llama.modeling_llama  # with all that every model imports, before processes are forked
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_MAPPING_NAMES

TOKENS = 24
LAYERS = 8
WINDOW = 6
SHOWN = (1, 7, 23)  # positions of the temperatures that are written
FAR = 100000
SECONDS = 90  # per attempt
MEMORY = 12 << 30
PARAMETERS = 200_000_000  # of a model whose widths are not cut

SIZES = {  # cut to at most
    r"vocab_size(_per_layer_input)?|.*_vocab_size": 64,
    r"(.*_)?intermediate_size.*|(expert_)?ffn_hidden_size|ffn_dim|n_inner|ffn_hidden_size|encoder_ffn_dim|decoder_ffn_dim|dim_ff|d_ff|hidden_dim|d_inner": 64,
    r"num_experts|n_routed_experts|num_local_experts|moe_num_experts|num_routed_experts": 4,
    r"num_experts_per_tok|moe_topk|moe_k|top_k_experts|num_experts_per_token": 2,
    r"n_group|topk_group|num_expert_group": 1,
    r"sliding_window|sliding_window_size|local_attention|attention_window_size|window_size": WINDOW,
    r"attention_chunk_size": 8,
    r"max_window_layers": 3,
    r"floor_scale": 4,
    r"hidden_size_per_layer_input": 16,
    r"q_lora_rank|kv_lora_rank|out_hidden_size": 64,
    r"depth": LAYERS,
}
HEADS = 2

YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096}
# Sections of the axes add up to the rotated pairs, as in published files.
GLM_ROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}
# Keys without which a class builds no model, or none with attention. Those of text models are for composite types too.
NEEDED = {
    "bamba": {"attn_layer_indices": [2, 5]},
    "deepseek_v2": {"n_routed_experts": 4, "num_experts_per_tok": 2},
    "diffusion_gemma_text": {"num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 64},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "cohere_compass_text": {"rope_parameters": {name: {"rope_type": "default", "rope_theta": base, "mrope_section": [24, 20, 20]}
                                                for name, base in (("full_attention", 1e6), ("sliding_attention", 1e4))},
                            "layer_types": ["sliding_attention", "full_attention"] * 4},
    "chameleon": {"vocabulary_map": {"<image>": 1}},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 1, "clip_qkv": 8}},
    "deepseek_ocr2_text": {"n_routed_experts": 4, "num_experts_per_tok": 2, "mlp_layer_types": ["dense"] + ["sparse"] * 7},
    "dots3_note": {"vision_config": {"adapter_output_size": 128}},
    "evolla": {"protein_encoder_config": {"num_hidden_layers": 1, "hidden_size": 64, "num_attention_heads": 2, "intermediate_size": 64},
               "aligner_num_add_layers": 1, "resampler_depth": 1},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "position_embedding_type": "rotary"},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "glm4_moe": {"head_dim": 128},  # 4096 channels are not 96 heads
    "glm4v_moe_text": {"head_dim": 128, "rope_parameters": GLM_ROPE},
    "glm4v_text": {"rope_parameters": GLM_ROPE},
    "glm_image_text": {"rope_parameters": GLM_ROPE},
    "granite_docling": {"vision_config": {"out_hidden_size": 128}},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl_text": {"head_dim": 128, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0,
                                                             "mrope_section": [16, 16, 16, 16]}},
    "inkling2": {"vision_config": {"text_hidden_size": 256}},
    "inkling2_loop": {"vision_config": {"text_hidden_size": 256}},
    "kyutai_speech_to_text": {"pad_token_id": 3, "codebook_vocab_size": 2049, "audio_pad_token_id": 4},
    "longcat_flash": {"num_layers": 4},
    "lfm2": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 2},
    "mimi": {"upsample_groups": 128},
    "ministral": {"head_dim": 128},
    "minimax_m2": {"rotary_dim": 64},
    "minimax_m3_vl_text": {"rope_parameters": {"rope_type": "default", "rope_theta": 5000000.0, "partial_rotary_factor": 0.5}},
    "mllama_text_model": {"cross_attention_layers": [3]},
    "muse_spark": {"audio_config": {"out_hidden_size": 128}, "vision_config": {"out_hidden_size": 128}},
    "nemotron": {"num_key_value_heads": 1},
    "qwen2_5_omni_talker": {"embedding_size": 256},
    "qwen3_omni_moe_text": {"head_dim": 128},
    "qwen3_omni_moe_talker_text": {"head_dim": 128, "shared_expert_intermediate_size": 64},
    "qwen4_exp_text": {"head_dim": 256, "rope_parameters": {"rope_type": "default", "rope_theta": 10000000.0, "partial_rotary_factor": 0.25,
                                                            "mrope_section": [11, 11, 10], "mrope_interleaved": True},
                       "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 256,
                       "indexer_budget": 64, "indexer_compress_ratio": 4},
    "step3p5": {"sliding_window": 6},
    "t5gemma2_decoder": {"dropout_rate": 0.0},
    "t5gemma2_text": {"dropout_rate": 0.0},
    "zamba2": {"use_mem_rope": True},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 4, "position_embedding_type": "rope"},
}


def smaller(key, value):
    """Returns the cut value of a key, or None."""
    for pattern, most in SIZES.items():
        if isinstance(value, int) and not isinstance(value, bool) and value > most and re.fullmatch(pattern, key):
            return most
    return None


def cut(config, level):
    """Returns keys of a smaller model than the class's default `config`; higher levels change less."""
    names = config.attribute_map
    keys = config.to_dict()
    given = {}

    def value(name):
        return keys.get(names.get(name, name))

    def put(name, number):
        name = names.get(name, name)
        if name in keys and isinstance(number, int) and keys[name] != number:
            given[name] = number

    layers, heads, hidden = (value(name) for name in ("num_hidden_layers", "num_attention_heads", "hidden_size"))
    heads_name, hidden_name = "num_attention_heads", "hidden_size"
    if isinstance(keys.get("num_heads"), int):  # of vision towers
        heads_name, hidden_name = "num_heads", "embed_dim" if "embed_dim" in keys else "hidden_size"
        heads, hidden = keys["num_heads"], keys.get(hidden_name)
    if isinstance(layers, int) and layers > LAYERS:
        put("num_hidden_layers", LAYERS)
    if level < 3:
        for key, number in keys.items():
            small = smaller(key, number)
            is_pixels = key == "window_size" and "patch_size" in keys
            if small is not None and not is_pixels and not (level == 2 and "vocab" in key):
                given[key] = small
    for key, number in keys.items():
        if re.fullmatch(r"(pad|bos|eos|sep|cls|decoder_start|image|video|audio)_token_id", key) and "vocab_size" in given:
            if isinstance(number, int) and number >= 64 or isinstance(number, list):
                given[key] = 1
        elif key in ("vocab_size", "pad_token_id") and number is None and keys.get("vocab_size", 0) is None:
            given[key] = 64 if key == "vocab_size" else 1
        elif isinstance(number, list) and isinstance(layers, int) and len(number) == layers > LAYERS and level > 0:
            given[key] = number[:LAYERS]
    if level < 3 and isinstance(heads, int) and isinstance(hidden, int) and heads > HEADS:
        width = value("head_dim")
        width = width if isinstance(width, int) and width > 0 else hidden // heads
        put(heads_name, HEADS)
        put(hidden_name, HEADS * width)
        kv_heads = value("num_key_value_heads")
        if isinstance(kv_heads, int):
            put("num_key_value_heads", HEADS if kv_heads == heads else 1)
    given |= NEEDED.get(config.model_type, {})
    if "local_attention" in given:
        given.pop("sliding_window", None)  # the class computes it
    patch, image = keys.get("patch_size"), keys.get("image_size")
    if isinstance(patch, int) and isinstance(image, int) and not getattr(config, "vocab_size", None):
        given["image_size"] = 4 * patch
    sections = sections_of(config) if "code_predictor" not in config.model_type else None
    rope = given.get("rope_parameters", keys.get("rope_parameters"))
    if sections and isinstance(rope, dict) and "mrope_section" not in rope and rope.get("rope_type") != "axial":
        given["rope_parameters"] = rope | {"mrope_section": sections}
    return given


def sections_of(config):
    """Returns the sections that the modeling code takes for a file without mrope_section, or None."""
    try:
        module = importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    except ImportError:
        return None
    found = re.search(r'rope_parameters\.get\("mrope_section", (\[[\d, ]+\])\)', inspect.getsource(module))
    return json.loads(found[1]) if found else None


def doubled(value):
    """Returns float32 tensors as float64, because some classes mix the types of their weights."""
    if isinstance(value, (list, tuple)):
        return type(value)(map(doubled, value))
    return value.double() if isinstance(value, torch.Tensor) and value.dtype == torch.float32 else value


class Calls(TorchFunctionMode):
    """Collects a product of queries and keys with the softmax that follows it, for each call of an attention module."""

    def __init__(self):
        super().__init__()
        self.modules = []  # the attention modules that are running, by name
        self.product = None
        self.joined = None  # scores with a column of sinks
        self.shifted = None  # scores from which their maximum is subtracted
        self.has_sums = False  # of exponentials, from which some classes compute the share of sinks
        self.found = []
        self.parts = []  # outputs of the modules within an attention module

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.modules and function in (torch.nn.functional.scaled_dot_product_attention,):
            raise RuntimeError("scaled_dot_product_attention was called in spite of eager")
        try:
            result = function(*args, **kwargs)
        except RuntimeError as error:
            if not re.search("dtype|scalar type", str(error)):
                raise
            result = function(*map(doubled, args), **{key: doubled(value) for key, value in kwargs.items()})
        if not self.modules:
            return result
        name = getattr(function, "__name__", "")
        if name in ("float", "to", "type", "type_as") and isinstance(args[0], torch.Tensor) and args[0].dtype == torch.float64:
            if result.dtype == torch.float32:
                return args[0]  # rounding queries and keys would hide small angles
        if name in ("matmul", "bmm", "__matmul__", "baddbmm", "einsum"):
            tensors = [a for a in args if isinstance(a, torch.Tensor)]
            if name == "einsum" and len(tensors) == 2 and tensors[1].dim() >= 3:
                tensors[1] = tensors[1].transpose(-1, -2)
            if name == "baddbmm":
                tensors = [kwargs.get("batch1", tensors[-2]), kwargs.get("batch2", tensors[-1])]
            if len(tensors) == 2 and result.dim() >= 3 and result.shape[-2] == TOKENS and result.shape[-1] >= TOKENS:
                self.product, self.joined = (tensors[0], tensors[1].transpose(-1, -2), result), None
                self.has_sums, self.shifted = False, None
        elif name in ("max", "amax") and self.product is not None:
            self.shifted = args[0]
        elif name == "logsumexp":
            self.has_sums = True
        elif name in ("cat", "concat") and self.product is not None and isinstance(args[0], (list, tuple)):
            if result.shape[-1] == self.product[2].shape[-1] + 1 and args[0][0].shape[-1] == self.product[2].shape[-1]:
                self.joined = result
        elif name == "softmax" and self.product is not None:
            scores = self.joined if self.joined is not None else args[0]
            if self.shifted is not None and self.shifted.shape == scores.shape:
                scores = self.shifted
            if scores.shape[-2] == TOKENS and scores.numel() >= self.product[2].numel():
                queries, keys, _ = self.product
                self.found.append((self.modules[-1], queries.detach().clone(), keys.detach().clone(), scores.detach().clone(),
                                   self.joined is not None or self.has_sums, list(self.parts)))
            self.product = self.joined = None
        return result


def layer_of(name):
    found = re.search(r"\.(\d+)\.", "." + name + ".")
    return int(found[1]) if found else 0


def watch(model, calls):
    """Replaces the input of every attention module by one token, repeated, and collects outputs of its parts."""
    attention = [(name, module) for name, module in model.named_modules()
                 if re.search("Attention|Attn|SelfAtt|MLA$", type(module).__name__) and "Output" not in type(module).__name__]
    for name, module in attention:
        def before(module, args, kwargs, name=name):
            generator = torch.Generator().manual_seed(len(name) + layer_of(name))

            def constant(x):
                global TOKENS
                if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dim() in (2, 3):
                    if TOKENS == 0:  # of an image
                        TOKENS = x.shape[-2]
                if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dim() in (2, 3) and x.shape[-2] == TOKENS and (x.dim() == 2 or x.shape[0] == 1):
                    token = torch.randn(x.shape[-1], generator=generator, dtype=x.dtype)
                    return token.expand(x.shape).contiguous(), True
                return x, False
            args = list(args)
            for i, value in enumerate(args):
                args[i], done = constant(value)
                if done:
                    break
            else:
                for key in ("hidden_states", "hidden_state", "x", "input", "inputs", "query"):
                    if key in kwargs:
                        kwargs[key], done = constant(kwargs[key])
                        if done:
                            break
            calls.modules.append(name)
            calls.parts = []
            return tuple(args), kwargs

        def after(module, args, result):
            calls.modules.pop()

        module.register_forward_pre_hook(before, with_kwargs=True)
        module.register_forward_hook(after)
        for part in module.modules():
            if part is module:
                continue

            def keep(part, args, result):
                result = result[0] if isinstance(result, (tuple, list)) and result else result
                if isinstance(result, torch.Tensor) and result.is_floating_point() and result.dim() >= 2:
                    calls.parts.append(result.detach())
            part.register_forward_hook(keep)


def source(vector, parts):
    """Finds the contiguous channels of a part's output at position 0 that are `vector` up to order and a factor.

    Returns (factor, index of each channel among them, offset), or None. Later parts come first: norms after products.
    """
    width = len(vector)
    target = vector.abs().sort().values
    for part in reversed(parts):
        if part.dim() == 3 and part.shape[1] == TOKENS:
            first = part[0, 0]
        elif part.dim() == 4 and part.shape[1] == TOKENS:
            first = part[0, 0].reshape(-1)
        elif part.dim() == 4 and part.shape[2] == TOKENS:
            first = part[0, :, 0].reshape(-1)
        elif part.dim() == 3 and part.shape[0] == TOKENS:
            first = part[0].reshape(-1)
        elif part.dim() == 2 and part.shape[0] == TOKENS:
            first = part[0]
        else:
            continue
        if len(first) < width:
            continue
        step = 4 if width % 4 == 0 else 1
        chunks = first.unfold(0, width, step)
        match = torch.nn.functional.cosine_similarity(chunks.abs().sort(dim=-1).values, target[None], dim=-1)
        best = int(match.argmax())
        if match[best] < 1 - 1e-12:
            continue
        chunk = chunks[best]
        size = float(target.norm() / chunk.norm())
        distance = (vector[:, None] / size - chunk[None]).abs()
        flipped = (vector[:, None] / size + chunk[None]).abs()
        if float(flipped.min(dim=1).values.sum()) < float(distance.min(dim=1).values.sum()):
            distance, size = flipped, -size
        index = distance.argmin(dim=1).tolist()
        if float(distance.min(dim=1).values.max()) < 1e-6 * float(chunk.abs().max()) and len(set(index)) == width:
            return size, index
    return None


def round_to(number, digits=9):
    return float(f"{number:.{digits}g}")


def rotation_of(x):
    """Returns (temperature per position, pairs, inv_freq) of x [positions, channels], or a string with what it is not."""
    norms = x.norm(dim=-1)
    temperature = norms / norms[0]
    if float((temperature - 1).abs().max()) < 1e-6:
        temperature = torch.ones_like(temperature)
    else:  # exact where channels without rotation show it
        ratios = (x / x[0]).sort(dim=-1).values
        for row in range(len(x)):
            close = (ratios[row].diff().abs() < 1e-12).nonzero()
            if len(close):
                temperature[row] = ratios[row][close[0, 0]]
    x = x / temperature[:, None]
    scale = float(x[0].abs().max())
    moves = ((x - x[0]).abs().max(dim=0).values > 1e-13 * scale).nonzero()[:, 0].tolist()
    if not moves:
        return temperature, [], []
    if len(moves) % 2:
        return "channels that no pairs explain"
    n = len(moves) // 2
    candidates = {"half": list(zip(moves[:n], moves[n:])), "interleaved": list(zip(moves[0::2], moves[1::2])),
                  "quarters": list(zip(moves[:n // 2] + moves[n:n + n // 2], moves[n // 2:n] + moves[n + n // 2:]))}
    best = None
    for name, pairs in candidates.items():
        a, b = (x[:, [pair[i] for pair in pairs]] for i in (0, 1))
        size = (a * a + b * b).sqrt()
        wrong = float(((size - size[0]).abs() / size[0]).max())
        if best is None or wrong < best[0]:
            best = wrong, name, pairs
    wrong, name, pairs = best
    if wrong > 2e-6:
        return "a change with positions that no rotation explains"
    z = torch.complex(*(x[:, [pair[i] for pair in pairs]] for i in (0, 1)))
    if GRIDS:
        return temperature, pairs, on_grid(z)
    angle = torch.angle(z / z[0])
    inv_freq = angle[1]
    positions = torch.arange(len(x), dtype=x.dtype)[:, None]
    rest = angle - positions * inv_freq
    rest = (rest - 2 * math.pi * torch.round(rest / (2 * math.pi))).abs()
    if float((rest / (1 + positions)).max()) > 2e-6:
        return "angles that do not grow with the position"
    return temperature, pairs, inv_freq.tolist()


GRIDS = {}  # of images: for an order of patches, its rows and columns; empty for text


def grids(rows, columns):
    """Returns orders of patches, with the tokens before and after them that do not rotate."""
    by_rows = [(r, c) for r in range(rows) for c in range(columns)]
    by_blocks = sorted(by_rows, key=lambda at: (at[0] // 2, at[1] // 2, at[0] % 2, at[1] % 2))
    return {"rows": by_rows, "blocks": by_blocks}


def on_grid(z):
    """Returns {order, first, axes, inv_freq} that explain how pairs [tokens, pairs] turn over a grid of patches, or a string."""
    for order, places in GRIDS.items():
        for first in dict.fromkeys((0, len(z) - len(places))):
            patches = z[first:first + len(places)]
            if first < 0 or len(patches) < len(places):
                continue
            turn = torch.angle(patches / patches[0])
            right, down = places.index((0, 1)), places.index((1, 0))
            axes, inv_freq, wrong = "", [], 0.0
            for i in range(z.shape[1]):
                axis = 1 if abs(float(turn[right, i])) > abs(float(turn[down, i])) else 0
                frequency = float(turn[right if axis else down, i])
                rest = torch.stack([turn[t, i] - frequency * place[axis] for t, place in enumerate(places)])
                wrong = max(wrong, float((rest - 2 * math.pi * torch.round(rest / (2 * math.pi))).abs().max()))
                axes += str(axis)
                inv_freq.append(frequency)
            if wrong < 1e-5:
                return {"order": order, "first": first, "axes": axes, "inv_freq": [round_to(f, 7) for f in inv_freq]}
    return "unexplained"


def explain(inv_freq, width):
    """Returns {base, dim} if they explain the frequencies, otherwise {inv_freq}."""
    if isinstance(inv_freq, dict):
        return inv_freq
    n = len(inv_freq)
    if n > 1 and 0 < inv_freq[1] < inv_freq[0] and abs(inv_freq[0] - 1) < 1e-6:
        for dim in dict.fromkeys((2 * n, width)):
            base = math.exp(-math.log(inv_freq[-1]) * dim / (2 * (n - 1)))
            base = round_to(base, 5)
            if all(abs(f / base ** (-2 * i / dim) - 1) < 3e-6 for i, f in enumerate(inv_freq)):
                return {"base": base, "dim": dim}
    return {"inv_freq": [round_to(f, 7) for f in inv_freq]}


def mask_of(visible):
    """Returns what explains the visible keys [queries, keys]."""
    n = len(visible)
    i, j = torch.arange(n)[:, None], torch.arange(n)[None, :]
    if bool(visible.all()):
        return {"mask": "all"}
    if bool((visible == (j <= i)).all()):
        return {"mask": "causal"}
    for size in range(1, n):
        for mask, shape in (({"mask": "causal", "window": size}, (j <= i) & (i - j < size)),
                            ({"mask": "all", "reach": size}, (i - j).abs() <= size),
                            ({"mask": "causal", "chunk": size}, (j <= i) & (j // size == i // size))):
            if bool((visible == shape).all()):
                return mask
    return {"mask": "other", "keys": [int(row.sum()) for row in visible]}


def scores_of(products, scores, visible, caps):
    """Returns (scale, factor per query, softcap) that explain the visible scores, or None."""
    sizes = torch.where(visible, products.abs(), 0)
    large = visible & (sizes > 0.05 * sizes.amax(dim=-1, keepdim=True))
    for cap in [0.0, *caps]:
        linear = scores if cap == 0 else cap * torch.atanh((scores / cap).clamp(-1 + 1e-15, 1 - 1e-15))
        ratio = torch.where(large, linear / products, math.nan)
        per_query = ratio.transpose(0, 1).flatten(1).nanmedian(dim=1).values
        wrong = ((ratio / per_query[None, :, None] - 1).abs()).nan_to_num(0).max()
        if float(wrong) < 1e-6 and not bool(per_query.isnan().any()):
            return float(per_query[0]), per_query / per_query[0], cap
    return None


def facts(call, caps):
    """Returns what one attention call does."""
    _, queries, keys, scores, sinks, parts = call
    queries, keys = (x.reshape(-1, *x.shape[-2:]).double() for x in (queries, keys))
    scores = scores.reshape(-1, *scores.shape[-2:]).double()
    if len(queries) != len(keys):
        keys = keys.repeat_interleave(len(queries) // len(keys), dim=0)
    if scores.shape[-1] == TOKENS + 1:
        scores = scores[..., :-1]
    if keys.shape[1] != TOKENS or scores.shape != (len(queries), TOKENS, TOKENS):
        return {"unexplained": f"scores of shape {list(scores.shape)}"}
    width = queries.shape[-1]
    visible = scores > -3000
    if not bool((visible == visible[:1]).all()):
        return {"unexplained": "heads with different masks"}
    fact = mask_of(visible[0])
    fact["head_dim"] = width

    rotations = [rotation_of(x[head]) for x in (queries, keys) for head in range(len(x))]
    wrong = [r for r in rotations if isinstance(r, str)] + ["angles that no grid explains" for r in rotations if r[2] == "unexplained"]
    if wrong:
        return fact | {"unexplained": wrong[0]}
    temperature, pairs, inv_freq = rotations[0]
    for i, (other, other_pairs, other_freq) in enumerate(rotations):
        same = other_pairs == pairs and (inv_freq == other_freq if isinstance(inv_freq, dict) else
                                         all(abs(a - b) <= 1e-6 * abs(a) for a, b in zip(inv_freq, other_freq)))
        if not same:
            return fact | {"unexplained": "heads, or queries and keys, that rotate differently"}
        if i >= len(queries) and float((other - 1).abs().max()) > 1e-6:
            return fact | {"unexplained": "a factor of keys that depends on the position"}

    explained = scores_of(queries @ keys.transpose(-1, -2), scores, visible, caps)
    if explained is None:
        return fact | {"unexplained": "scores that are no multiple of products"}
    factor, per_query, cap = explained
    temperature = temperature * per_query

    rotated = sorted(c for pair in pairs for c in pair)
    passed = [c for c in range(width) if c not in set(rotated)]
    index = {}
    factors = {"rotated": factor, "passed": factor}
    for x in (queries, keys):
        for part, channels in (("rotated", rotated), ("passed", passed)):
            if not channels:
                continue
            found = source(x[0, 0, channels], parts) if channels == list(range(width)) or part == "passed" else None
            whole = source(x[0, 0], parts) if found is None else None
            found = found or (source(x[0, 0, channels], parts) if whole is None else None)
            if whole is not None:
                factors[part] *= whole[0]
                order = {c: whole[1][c] for c in channels}
            elif found is not None:
                factors[part] *= found[0]
                order = {c: found[1][i] for i, c in enumerate(channels)}
            else:
                fact["untraced"] = True  # no part of the module has these channels: a norm without a module
                continue
            if part == "rotated":
                if "order" not in index:
                    index = {"order": order, "whole": whole is not None}
    if pairs:
        order = index.get("order", {c: c for c in rotated})
        low = 0 if index.get("whole", True) or "order" not in index else rotated[0]
        pairs = [tuple(order[c] + low for c in pair) for pair in pairs]
        channels = sorted(c for pair in pairs for c in pair)
        offset, n = channels[0], len(pairs)
        if pairs == [(offset + i, offset + i + n) for i in range(n)]:
            form = "half"
        elif pairs == [(offset + 2 * i, offset + 2 * i + 1) for i in range(n)]:
            form = "interleaved"
        elif pairs == [(offset + i, offset + i + width // 2) for i in range(n)] and offset == 0:
            form = "half of head"  # the last frequencies are 0
        else:
            form = "other"
            fact["pairs"] = pairs
        fact["rotation"] = {"pairs": form, "offset": offset, "width": 2 * n} | explain(inv_freq, width)
    else:
        fact["rotation"] = None
    main = "rotated" if pairs else "passed"
    fact["factor"] = round_to(factors[main], 8)
    if pairs and passed and abs(factors["passed"] / factors["rotated"] - 1) > 1e-6:
        fact["plain"] = round_to(factors["passed"], 8)
    if cap:
        fact["softcap"] = cap
    if sinks:
        fact["sinks"] = True
    if float((temperature - 1).abs().max()) > 1e-6:
        fact["temperature"] = [round_to(float(temperature[p]), 8) for p in SHOWN]
    return fact


def without_random_weights():
    """Lets classes fill weights with zeros where they would draw them, which takes longer than all the rest."""
    for module in (torch.nn.init, importlib.import_module("transformers.initialization")):
        for name in ("normal_", "uniform_", "trunc_normal_", "kaiming_uniform_", "kaiming_normal_", "xavier_uniform_",
                     "xavier_normal_"):
            setattr(module, name, lambda tensor, *args, **kwargs: tensor.data.zero_())


def randomize(model, with_norms):
    drawn = torch.randn(1000003, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    start = 0
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if not weight.requires_grad:
                continue  # tables of sines
            size = weight.numel()
            rest = drawn[start:]
            numbers = rest[:size] if size <= len(rest) else torch.cat([rest] + [drawn] * (size // len(drawn) + 1))[:size]
            numbers = numbers.reshape(weight.shape)
            start = (start + size) % len(drawn)
            if weight.dim() >= 2:
                fan = weight.shape[-1] if "embed" not in name else 1
                weight.copy_(numbers * (1.5 / math.sqrt(fan)))
            elif weight.dim() == 1 and (with_norms or "norm" not in name):
                weight.add_(0.1 * numbers)


def model_class(config):
    """Returns the class that AutoModel builds, or one of the module that has this configuration."""
    module = importlib.import_module(type(config).__module__.replace(".configuration_", ".modeling_"))
    for names in (MODEL_MAPPING_NAMES, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES):
        name = names.get(config.model_type)
        name = name[0] if isinstance(name, (tuple, list)) else name
        if name is not None and hasattr(module, name):
            return getattr(module, name)
    found = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, transformers.PreTrainedModel)
             and c.__module__ == module.__name__ and getattr(c, "config_class", None) is type(config)
             and not c.__name__.endswith("PreTrainedModel")]
    if not found:
        raise LookupError("no model class")
    return min(found, key=lambda c: (not re.search("TextModel|Model$", c.__name__), len(c.__name__)))


def configured(model_type, level, patch=None):
    """Returns (keys, configuration of the file, that of its text model) with a small text model.

    The keys of `patch` are added to those of the text model.
    """
    whole_class = CONFIG_MAPPING[model_type]
    whole = whole_class()
    try:
        text = whole.get_text_config(decoder=True)
    except ValueError:
        text = whole
    path = path_of(whole, text)
    if not path:
        given = cut(whole, level) | (patch or {})
        config = whole_class(**given)
        return given, config, config
    defaults = {key: value for key, value in text.to_diff_dict().items() if not isinstance(value, dict) and key != "transformers_version"}
    for key in ("full_attn_idxs", "rope_scaling_layers"):  # of more layers
        defaults.pop(key, None)
    keys = defaults | cut(text, level) | (patch or {})
    if "model_type" in text.to_dict() and text.model_type:
        keys = {"model_type": text.model_type} | keys
    for i, key in reversed(list(enumerate(path))):
        keys = {key: keys}
        if i > 0:
            keys = {"model_type": at(whole, path[:i]).model_type} | keys
    given = keys | NEEDED.get(model_type, {})
    config = whole_class(**given)
    return given, config, at(config, path)


def file_of(config, text):
    """Returns the file that a class writes, without its parts that do not hold the text model."""
    kept = json.loads(config.to_json_string(use_diff=True))
    path = path_of(config, text)
    for key, value in vars(config).items():
        if isinstance(value, transformers.PreTrainedConfig) and path and key != path[0]:
            kept.pop(key, None)
    kept.pop("transformers_version", None)
    return kept


def at(config, path):
    for key in path:
        config = getattr(config, key)
    return config


def path_of(whole, text, depth=2):
    """Returns the keys that lead from a configuration to that of its text model; none if they are the same, or not found."""
    if whole is text or depth == 0:
        return []
    for key, value in vars(whole).items():
        if value is text:
            return [key]
    for key, value in vars(whole).items():
        if isinstance(value, transformers.PreTrainedConfig):
            path = path_of(value, text, depth - 1)
            if path:
                return [key] + path
    return []


def yarn_of(text):
    """Returns the rope_parameters of a text model with YaRN in the place of no scaling, or None."""
    rope = getattr(text, "rope_parameters", None)
    length = getattr(text, "max_position_embeddings", None)
    if not isinstance(rope, dict) or not isinstance(length, int):
        return None
    if all(isinstance(value, dict) for value in rope.values()):
        name = "full_attention" if "full_attention" in rope else next(iter(rope), None)
        inner = rope.get(name)
        return rope | {name: inner | YARN} if inner and inner.get("rope_type") == "default" else None
    return rope | YARN if rope.get("rope_type") == "default" else None


def run(model_type, level, patch=None, with_norms=True):
    given, config, text = configured(model_type, level, patch)
    kept = file_of(config, text)
    text._attn_implementation = "eager"
    text._experts_implementation = "eager"
    built = model_class(text)
    names = inspect.signature(built.forward).parameters
    visual = ("pixel_values" in names or "grid_thw" in names) and "input_ids" not in names
    if built.main_input_name not in ("input_ids", "inputs_embeds") and not visual:
        raise NotImplementedError(f"it takes {built.main_input_name}")
    if level == 3:
        with torch.device("meta"):
            size = sum(p.numel() for p in built._from_config(text, attn_implementation="eager").parameters())
        if size > PARAMETERS:
            raise MemoryError(f"{size} weights")
    torch.manual_seed(1)
    model = built._from_config(text, attn_implementation="eager", dtype=torch.float64).eval()
    for name, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            if "inv_freq" in name:
                setattr(module, name, buffer.float())  # as it is in models of any type
    randomize(model, with_norms)
    calls = Calls()
    watch(model, calls)
    ids = torch.arange(TOKENS)[None] % 20 + 3
    call = image(model, text) if visual else inputs(model, text, ids)
    failure = None
    with torch.no_grad(), calls:
        try:
            if visual:
                model(**call)
            else:
                model(**call, use_cache=False)
        except TypeError as error:
            if "use_cache" not in str(error):
                raise
            model(**call)
        except Exception as error:  # what was seen before may be enough
            failure = error
    if not calls.found:
        if failure is not None:
            raise failure
        return {"given": given, "config": kept, "class": built.__name__, "kinds": [], "layers": []}
    if failure is not None and not visual:
        raise failure
    caps = sorted({float(v) for k, v in text.to_dict().items() if isinstance(v, (int, float)) and "cap" in k and v and v > 1})
    kinds, layers = [], {}
    axes = mrope_axes(model, text, calls) if not visual else None
    far = far_temperature(model, text, calls)
    for found in calls.found:
        fact = facts(found, caps)
        if far is not None:
            fact["far_temperature"] = far
        if axes and fact.get("rotation"):
            fact["rotation"]["axes"] = axes
        if fact not in kinds:
            kinds.append(fact)
        layers.setdefault(layer_of(found[0]), []).append(kinds.index(fact))
    count = getattr(text, "num_layers" if text.model_type == "longcat_flash" else "num_hidden_layers", None)
    count = count if isinstance(count, int) and count > max(layers) else max(layers) + 1
    rows = [layers.get(i, [-1]) for i in range(count)]
    result = {"given": given, "config": kept, "class": built.__name__, "kinds": kinds, "layers": [row[0] for row in rows]}
    if any(len(row) > 1 for row in rows):  # several attentions per layer
        result["all"] = rows
    return result


def image(model, text):
    """Returns the arguments of a vision tower for an image of 4 x 6 patches, 6 x 6, or 4 x 4 where the size is fixed."""
    global TOKENS
    names = inspect.signature(model.forward).parameters
    patch = getattr(text, "patch_size", 16)
    patch = patch if isinstance(patch, int) else patch[0]
    channels = getattr(text, "num_channels", None) or getattr(text, "in_channels", None) or getattr(text, "in_chans", None) or 3
    rows, columns = 4, 6
    draw = torch.Generator().manual_seed(5)

    def noise(*shape):
        return torch.randn(shape, generator=draw, dtype=torch.float64)
    TOKENS = 0
    if "grid_thw" in names:
        call = {"grid_thw": torch.tensor([[1, rows, columns]])}
        width = channels * getattr(text, "temporal_patch_size", 1) * patch * patch
        call[next(iter(names))] = noise(rows * columns, width)
    elif "pixel_position_ids" in names:
        rows = columns = 6
        places = torch.tensor([[(c, r) for r in range(rows) for c in range(columns)]])
        call = {"pixel_position_ids": places, "pixel_values": noise(1, rows * columns, channels * patch * patch)}
    elif isinstance(getattr(text, "image_size", None), int) and "image_sizes" not in names:
        rows = columns = text.image_size // patch
        call = {"pixel_values": noise(1, channels, text.image_size, text.image_size)}
    elif "spatial_shapes" in names:
        call = {"pixel_values": noise(1, rows * columns, channels * patch * patch), "spatial_shapes": torch.tensor([[rows, columns]]),
                "pixel_attention_mask": torch.ones(1, rows * columns, dtype=torch.long)}
    else:
        call = {"pixel_values": noise(1, channels, rows * patch, columns * patch)}
    GRIDS.update(grids(rows, columns))
    return call


def inputs(model, text, ids):
    """Returns the arguments that the model needs for a row of ids."""
    parameters = inspect.signature(model.forward).parameters
    channels = getattr(text, "num_channels", None)
    if model.config.model_type == "kyutai_speech_to_text":
        channels = text.num_codebooks + 1
    if model.config.model_type in ("dia_decoder", "higgs_audio_v2", "kyutai_speech_to_text") and channels:
        ids = ids[..., None].expand(-1, -1, channels)
    hidden = getattr(text, "hidden_size", None)
    needed = [name for name, p in parameters.items() if p.default is inspect.Parameter.empty and p.kind != p.VAR_KEYWORD]
    call = {}
    if "input_ids" in parameters or "inputs_embeds" not in parameters:
        call["input_ids"] = ids
    else:
        call["inputs_embeds"] = torch.ones(1, TOKENS, hidden, dtype=torch.float64)
    if "inputs_embeds" in needed:
        call["inputs_embeds"] = torch.ones(1, TOKENS, hidden, dtype=torch.float64)
        call.pop("input_ids", None)
    if re.search("code_predictor|talker_text", model.config.model_type):
        call = {"inputs_embeds": torch.ones(1, TOKENS, hidden, dtype=torch.float64)}
    if model.config.model_type == "voxtral_realtime_text":
        call["t_cond"] = torch.ones(1, 1, hidden, dtype=torch.float64)
    if "position_ids" in needed:
        call["position_ids"] = torch.arange(TOKENS)[None]
    if getattr(text, "is_encoder_decoder", False):
        call["decoder_input_ids"] = ids
    if model.config.model_type == "dia_decoder":
        call["encoder_hidden_states"] = torch.ones(1, TOKENS + 1, text.cross_hidden_size, dtype=torch.float64)
    if model.config.model_type == "idefics":
        call["image_encoder_embeddings"] = torch.ones(1, 1, 5, text.vision_config.embed_dim, dtype=torch.float64)
        call["image_attention_mask"] = torch.ones(1, TOKENS, 1, dtype=torch.long)
    return call


def mrope_axes(model, text, calls):
    """Returns the axis of each pair as a digit, for a model that rotates by several axes, or None."""
    if "mrope" not in inspect.getsource(inspect.getmodule(type(model))):
        return None
    plain = [rotation_of(found[1].reshape(-1, *found[1].shape[-2:])[0].double()) for found in calls.found]
    seen, calls.found = calls.found, []
    row = torch.arange(TOKENS)
    try:
        with torch.no_grad(), calls:
            ids = row[None] % 20 + 3
            model(input_ids=ids, position_ids=torch.stack([row, 2 * row, 3 * row])[:, None], use_cache=False)
        queries = calls.found[-1][1].reshape(-1, *calls.found[-1][1].shape[-2:])[0].double()
    except Exception:
        return None
    finally:
        calls.found = seen
    if isinstance(plain[-1], str):
        return None
    _, pairs, inv_freq = plain[-1]
    z = torch.complex(*(queries[:, [pair[i] for pair in pairs]] for i in (0, 1)))
    ratio = torch.angle(z / z[0])[1] / torch.tensor(inv_freq, dtype=torch.float64)
    axes = [round(float(r)) - 1 for r in ratio]
    if any(abs(float(r) - 1 - axis) > 1e-4 or axis not in (0, 1, 2) for r, axis in zip(ratio, axes)):
        return "unexplained"
    return "".join(map(str, axes))


def far_temperature(model, text, calls):
    """Returns the factor of queries at position FAR, where that is beyond what is cut, or None."""
    if "llama_4_scaling_beta" not in json.dumps(text.to_dict()):
        return None
    near, calls.found = calls.found, []
    with torch.no_grad(), calls:
        model(input_ids=torch.arange(TOKENS)[None] % 20 + 3, position_ids=torch.arange(TOKENS)[None] + FAR, use_cache=False)
    far, calls.found = calls.found, near
    return round_to(float(far[0][1].reshape(-1, far[0][1].shape[-1])[0].norm() / near[0][1].reshape(-1, near[0][1].shape[-1])[0].norm()), 7)


def in_time(function, *args, **kwargs):
    def stop(*_):
        raise TimeoutError(f"more than {SECONDS} s")
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        return function(*args, **kwargs)
    finally:
        signal.alarm(0)


def is_explained(row):
    return not any("unexplained" in kind for kind in row["kinds"])


def rotates(row):
    return any(kind.get("rotation", True) for kind in row["kinds"])


def attempt(model_type, level, patch=None):
    row = in_time(run, model_type, level, patch)
    if not is_explained(row):  # weights of norms after the rotation hide it
        again = in_time(run, model_type, level, patch, with_norms=False)
        row = again if is_explained(again) else row
    return row


def code_of(model_type):
    """Returns how a type rotates by its code: rotary, none, or absent if there is no modeling code."""
    pattern = "Rotary|RoPE|Rope|RotEmb|rotary|freqs_ci"
    try:
        config = configured(model_type, 1)[2]
        built = model_class(config)
        with torch.device("meta"):
            model = in_time(built._from_config, config)
        names = [type(module).__name__ for module in model.modules()] + [name for name, _ in model.named_buffers()]
        return "rotary" if any(re.search(pattern, name) for name in names) else "none"
    except Exception:
        config = CONFIG_MAPPING[model_type]
    try:
        text = inspect.getsource(importlib.import_module(config.__module__.replace(".configuration_", ".modeling_")))
    except (ImportError, OSError):
        return "absent"
    return "rotary" if re.search(pattern, text) else "none"


def record(model_type):
    """Returns the lines of a type."""
    errors = []
    for level in range(4):
        try:
            row = attempt(model_type, level)
        except Exception as error:
            if os.environ.get("TRACE"):
                traceback.print_exc()
            words = str(error).strip().splitlines()
            cause = words[1] if len(words) > 1 and "validator" in words[0] else "".join(words[:1])
            errors.append(f"{type(error).__name__}: {cause.strip()}"[:160])
            if isinstance(error, (TypeError, NotImplementedError, LookupError, ImportError)) and "validat" not in errors[-1]:
                break  # other sizes do not help
            continue
        if row["kinds"] and not rotates(row) and not GRIDS:
            row = {"kinds": [{"rotation": None}], "layers": [0] * len(row["layers"]), "class": row["class"]}
        lines = [row]
        patch = patch_of(model_type, level) if rotates(row) else None
        if patch:
            try:
                yarn = attempt(model_type, level, patch["text"])
                lines.append({"patch": patch["whole"], "kinds": yarn["kinds"], "layers": yarn["layers"]})
            except Exception as error:
                if os.environ.get("TRACE"):
                    traceback.print_exc()
                lines.append({"patch": patch["whole"], "failed": f"{type(error).__name__}: {error}"[:160]})
        return lines
    row = {"failed": errors[0], "code": code_of(model_type)}
    if row["code"] == "rotary":
        try:
            row["config"] = file_of(*configured(model_type, 1)[1:])
        except Exception:
            pass
    return [row]


def patch_of(model_type, level):
    """Returns the keys of YaRN, for the text model and for the file, if the type is that of a text model."""
    _, config, text = configured(model_type, level)
    rope = yarn_of(text)
    if rope is None or config is not text:
        return None
    keys = {"rope_parameters": rope, "max_position_embeddings": 4 * YARN["original_max_position_embeddings"]}
    if text.to_dict().get("head_dim", 0) is None:  # without it the rule of YaRN computes None * 1.0
        keys["head_dim"] = text.hidden_size // text.num_attention_heads
    return {"text": keys, "whole": keys}


def in_child(model_type):
    """Records a type in a process of its own, which a crash, a loop or a large model does not outlive."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (3 * SECONDS, 3 * SECONDS))
        if not os.environ.get("TRACE"):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            text = json.dumps(record(model_type))
        except BaseException as error:
            text = json.dumps([{"failed": type(error).__name__, "code": code_of(model_type)}])
        with os.fdopen(writer, "w") as out:
            out.write(text)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as source_of_text:
        text = source_of_text.read()
    os.waitpid(child, 0)
    return json.loads(text) if text else [{"failed": "its process was ended", "code": code_of(model_type)}]


def slim(line):
    """Returns a line without what the test does not read.

    That are keys of a file that concern no attention, files of types that did not run or do not rotate, and the keys of models around
    a text model, which is a type itself.
    """
    config = line.get("config", {})
    for part in [config] + [value for value in config.values() if isinstance(value, dict)]:
        for key in ("initializer_range", "tie_word_embeddings", "transformers_version"):
            part.pop(key, None)
    is_whole = any(isinstance(value, dict) and "model_type" in value for value in config.values())
    if is_whole:
        line.pop("given", None)
    if "failed" in line and "text_config" not in config or "kinds" in line and not rotates(line):
        line.pop("config", None)
    return line


def main(path, types):
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    without_random_weights()
    done = set()
    if os.path.exists(path):
        with open(path) as file:
            done = {json.loads(line)["type"] for line in file}
    with open(path, "a") as out:
        for model_type in types or sorted(CONFIG_MAPPING_NAMES):
            if model_type in done:
                continue
            for line in map(slim, in_child(model_type)):
                out.write(json.dumps({"type": model_type} | line, separators=(",", ":")) + "\n")
            out.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
