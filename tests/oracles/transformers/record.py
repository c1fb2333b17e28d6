#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records what the attention of a model type of transformers does with positions, by running it.

    record.py OUT.jsonl [TYPE...]        all model types of AutoConfig, if none is named

For each type a small model with random float64 weights is built from the class's own configuration. Layers, widths,
experts, vocabulary and windows are cut; widths of heads and everything else that decides positions are the class's.
Every attention module gets an input that is the same at all positions. Then queries and keys differ between positions
by the rotation and a temperature alone, whatever the code of the class is. Queries, keys and scores are taken from the
product and the softmax that the class calls, so that nothing has to be known about it.

A line of OUT is a type: `given`, the keys that were passed to the class; `config`, the file that the class writes;
`kinds`, the different facts of layers; `layers`, the kind of each layer, -1 without softmax. A kind has

    rotation    null, or {pairs: half or interleaved, offset, width: of head_dim channels those that rotate; base and
                dim, or inv_freq, one number per pair}; checked at all positions, for all heads, and for keys as well
    factor      factor of scores at position 0: scale, times factors of queries and keys, times cos and sin's squared
    plain       the same for channels without rotation, if there are any and it differs
    mask        causal or all; window: number of visible keys with the query's own; chunk: size of chunks
    softcap, sinks, temperature (at positions 1, 7 and 23)

A type whose model was not built has `failed` instead. torch runs on one thread.
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
SECONDS = 150
MEMORY = 16 << 30

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
    r"q_lora_rank|kv_lora_rank": 64,
}
HEADS = 2

# Sections of the axes add up to the rotated pairs, as in published files.
GLM_ROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5, "mrope_section": [8, 12, 12]}
# Keys without which a class builds no model, or none with attention. Those of text models are for composite types too.
NEEDED = {
    "bamba": {"attn_layer_indices": [2, 5]},
    "deepseek_v2": {"n_routed_experts": 4, "num_experts_per_tok": 2},
    "dots1": {"n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "chameleon": {"vocabulary_map": {"<image>": 1}},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "kv_n_heads": 1}},
    "deepseek_ocr2_text": {"n_routed_experts": 4, "num_experts_per_tok": 2, "mlp_layer_types": ["dense"] + ["sparse"] * 7},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "position_embedding_type": "rotary"},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "glm4_moe": {"head_dim": 128},  # 4096 channels are not 96 heads
    "glm4v_moe_text": {"head_dim": 128, "rope_parameters": GLM_ROPE},
    "glm4v_text": {"rope_parameters": GLM_ROPE},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "hunyuan_vl_text": {"head_dim": 128},
    "kyutai_speech_to_text": {"pad_token_id": 3, "codebook_vocab_size": 2049},
    "lfm2": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 2},
    "mimi": {"upsample_groups": 128},
    "ministral": {"head_dim": 128},
    "mllama_text_model": {"cross_attention_layers": [3]},
    "nemotron": {"num_key_value_heads": 1},
    "qwen3_omni_moe_text": {"head_dim": 128},
    "qwen4_exp_text": {"head_dim": 256},
    "step3p5": {"sliding_window": 6},
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
    if isinstance(layers, int) and layers > LAYERS:
        put("num_hidden_layers", LAYERS)
    if level < 2:
        for key, number in keys.items():
            small = smaller(key, number)
            if small is not None:
                given[key] = small
    for key, number in keys.items():
        if re.fullmatch(r"(pad|bos|eos|sep|cls|decoder_start|image|video|audio)_token_id", key) and "vocab_size" in given:
            if isinstance(number, int) and number >= 64 or isinstance(number, list):
                given[key] = 1
        elif key in ("vocab_size", "pad_token_id") and number is None and keys.get("vocab_size", 0) is None:
            given[key] = 64 if key == "vocab_size" else 1
        elif isinstance(number, list) and isinstance(layers, int) and len(number) == layers > LAYERS and level == 1:
            given[key] = number[:LAYERS]
    if level < 2 and isinstance(heads, int) and isinstance(hidden, int) and heads > HEADS:
        width = value("head_dim")
        width = width if isinstance(width, int) and width > 0 else hidden // heads
        put("num_attention_heads", HEADS)
        put("hidden_size", HEADS * width)
        kv_heads = value("num_key_value_heads")
        if isinstance(kv_heads, int):
            put("num_key_value_heads", HEADS if kv_heads == heads else 1)
    given |= NEEDED.get(config.model_type, {})
    if "local_attention" in given:
        given.pop("sliding_window", None)  # the class computes it
    sections = sections_of(config)
    rope = given.get("rope_parameters", keys.get("rope_parameters"))
    if sections and isinstance(rope, dict) and "mrope_section" not in rope:
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
        result = function(*args, **kwargs)
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
                 if re.search("Attention|Attn|SelfAtt", type(module).__name__) and "Output" not in type(module).__name__]
    for name, module in attention:
        def before(module, args, kwargs, name=name):
            generator = torch.Generator().manual_seed(len(name) + layer_of(name))

            def constant(x):
                if isinstance(x, torch.Tensor) and x.is_floating_point() and x.dim() == 3 and x.shape[1] == TOKENS and x.shape[0] == 1:
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
                if isinstance(result, torch.Tensor) and result.is_floating_point() and result.dim() >= 3:
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
    angle = torch.angle(z / z[0])
    inv_freq = angle[1]
    positions = torch.arange(len(x), dtype=x.dtype)[:, None]
    rest = angle - positions * inv_freq
    rest = (rest - 2 * math.pi * torch.round(rest / (2 * math.pi))).abs()
    if float((rest / (1 + positions)).max()) > 2e-6:
        return "angles that do not grow with the position"
    return temperature, pairs, inv_freq.tolist()


def explain(inv_freq, width):
    """Returns {base, dim} if they explain the frequencies, otherwise {inv_freq}."""
    n = len(inv_freq)
    if n > 1 and 0 < inv_freq[1] < inv_freq[0] and abs(inv_freq[0] - 1) < 1e-6:
        for dim in dict.fromkeys((2 * n, width)):
            base = math.exp(-math.log(inv_freq[-1]) * dim / (2 * (n - 1)))
            base = round_to(base, 5)
            if all(abs(f / base ** (-2 * i / dim) - 1) < 3e-6 for i, f in enumerate(inv_freq)):
                return {"base": base, "dim": dim}
    return {"inv_freq": [round_to(f, 8) for f in inv_freq]}


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
    wrong = [r for r in rotations if isinstance(r, str)]
    if wrong:
        return fact | {"unexplained": wrong[0]}
    temperature, pairs, inv_freq = rotations[0]
    for i, (other, other_pairs, other_freq) in enumerate(rotations):
        same = other_pairs == pairs and all(abs(a - b) <= 1e-6 * abs(a) for a, b in zip(inv_freq, other_freq))
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


def randomize(model):
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
            elif weight.dim() == 1:
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


def configured(model_type, level):
    """Returns (keys, configuration of the file, that of its text model) with a small text model."""
    whole_class = CONFIG_MAPPING[model_type]
    whole = whole_class()
    part = None
    try:
        text = whole.get_text_config(decoder=True)
    except ValueError:
        text = whole
    if text is not whole:
        part = next((key for key, value in vars(whole).items() if value is text), None)
    if part is None:
        given = cut(whole, level)
        config = whole_class(**given)
        return given, config, config
    given = {part: cut(text, level)}
    if "model_type" in text.to_dict() and text.model_type:
        given[part] = {"model_type": text.model_type} | given[part]
    config = whole_class(**given)
    return given, config, getattr(config, part)


def run(model_type, level):
    given, config, text = configured(model_type, level)
    kept = json.loads(config.to_json_string(use_diff=True))
    text._attn_implementation = "eager"
    text._experts_implementation = "eager"
    built = model_class(text)
    torch.manual_seed(1)
    model = built._from_config(text, attn_implementation="eager", dtype=torch.float64).eval()
    for name, module in model.named_modules():
        for name, buffer in module.named_buffers(recurse=False):
            if "inv_freq" in name:
                setattr(module, name, buffer.float())  # as it is in models of any type
    randomize(model)
    calls = Calls()
    watch(model, calls)
    ids = torch.arange(TOKENS)[None] % 20 + 3
    call = {"input_ids": ids}
    if getattr(text, "is_encoder_decoder", False):
        call["decoder_input_ids"] = ids
    failure = None
    with torch.no_grad(), calls:
        try:
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
    if failure is not None:
        raise failure
    caps = sorted({float(v) for k, v in text.to_dict().items() if isinstance(v, (int, float)) and "cap" in k and v and v > 1})
    kinds, layers = [], {}
    axes = mrope_axes(model, text, calls)
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
    count = getattr(text, "num_hidden_layers", None)
    count = count if isinstance(count, int) and count > max(layers) else max(layers) + 1
    rows = [layers.get(i, [-1]) for i in range(count)]
    result = {"given": given, "config": kept, "class": built.__name__, "kinds": kinds, "layers": [row[0] for row in rows]}
    if any(len(row) > 1 for row in rows):  # several attentions per layer
        result["all"] = rows
    return result


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


def record(model_type):
    errors = []
    for level in range(3):
        try:
            return run(model_type, level)
        except Exception as error:
            if os.environ.get("TRACE"):
                traceback.print_exc()
            errors.append(f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:160])
    return {"failed": errors[0]}


def in_child(model_type):
    """Records a type in a process of its own, which a crash, a loop or a large model does not outlive."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.alarm(SECONDS)
        if not os.environ.get("TRACE"):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            text = json.dumps(record(model_type))
        except BaseException as error:
            text = json.dumps({"failed": type(error).__name__})
        with os.fdopen(writer, "w") as out:
            out.write(text)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as source_of_text:
        text = source_of_text.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if text else {"failed": f"ended by signal {status & 127}: more than {SECONDS} s"}


def main(out, types):
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    without_random_weights()
    for model_type in types or sorted(CONFIG_MAPPING_NAMES):
        row = {"type": model_type} | in_child(model_type)
        out.write(json.dumps(row, separators=(",", ":")) + "\n")
        out.flush()


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        main(file, sys.argv[2:])
