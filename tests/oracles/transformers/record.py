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
import transformers.models.llama.modeling_llama  # with all that every model imports, before processes are forked
from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

import state
from facts import facts, grids, rotation_of, round_to
from small import configured, file_of, model_class, patch_of
from watching import Calls, layer_of, watch

FAR = 100000
SECONDS = 90  # per attempt
MEMORY = 12 << 30
PARAMETERS = 200_000_000  # of a model whose widths are not cut


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
    ids = torch.arange(state.TOKENS)[None] % 20 + 3
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
    names = inspect.signature(model.forward).parameters
    patch = getattr(text, "patch_size", 16)
    patch = patch if isinstance(patch, int) else patch[0]
    channels = getattr(text, "num_channels", None) or getattr(text, "in_channels", None) or getattr(text, "in_chans", None) or 3
    rows, columns = 4, 6
    draw = torch.Generator().manual_seed(5)

    def noise(*shape):
        return torch.randn(shape, generator=draw, dtype=torch.float64)
    state.TOKENS = 0
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
    state.GRIDS.update(grids(rows, columns))
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
        call["inputs_embeds"] = torch.ones(1, state.TOKENS, hidden, dtype=torch.float64)
    if "inputs_embeds" in needed:
        call["inputs_embeds"] = torch.ones(1, state.TOKENS, hidden, dtype=torch.float64)
        call.pop("input_ids", None)
    if re.search("code_predictor|talker_text", model.config.model_type):
        call = {"inputs_embeds": torch.ones(1, state.TOKENS, hidden, dtype=torch.float64)}
    if model.config.model_type == "voxtral_realtime_text":
        call["t_cond"] = torch.ones(1, 1, hidden, dtype=torch.float64)
    if "position_ids" in needed:
        call["position_ids"] = torch.arange(state.TOKENS)[None]
    if getattr(text, "is_encoder_decoder", False):
        call["decoder_input_ids"] = ids
    if model.config.model_type == "dia_decoder":
        call["encoder_hidden_states"] = torch.ones(1, state.TOKENS + 1, text.cross_hidden_size, dtype=torch.float64)
    if model.config.model_type == "idefics":
        call["image_encoder_embeddings"] = torch.ones(1, 1, 5, text.vision_config.embed_dim, dtype=torch.float64)
        call["image_attention_mask"] = torch.ones(1, state.TOKENS, 1, dtype=torch.long)
    return call


def mrope_axes(model, text, calls):
    """Returns the axis of each pair as a digit, for a model that rotates by several axes, or None."""
    if "mrope" not in inspect.getsource(inspect.getmodule(type(model))):
        return None
    plain = [rotation_of(found[1].reshape(-1, *found[1].shape[-2:])[0].double()) for found in calls.found]
    seen, calls.found = calls.found, []
    row = torch.arange(state.TOKENS)
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
        model(input_ids=torch.arange(state.TOKENS)[None] % 20 + 3, position_ids=torch.arange(state.TOKENS)[None] + FAR, use_cache=False)
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
        if row["kinds"] and not rotates(row) and not state.GRIDS:
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
