# SPDX-License-Identifier: MIT
"""Small configurations of model types: what is cut, what their classes need, and where their text model is."""
import importlib
import inspect
import json
import re

import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_MAPPING_NAMES

LAYERS = 8
WINDOW = 6
HEADS = 2

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


def file_of(config, text):
    """Returns the file that a class writes, without its parts that do not hold the text model."""
    kept = json.loads(config.to_json_string(use_diff=True))
    path = path_of(config, text)
    for key, value in vars(config).items():
        if isinstance(value, transformers.PreTrainedConfig) and path and key != path[0]:
            kept.pop(key, None)
    kept.pop("transformers_version", None)
    return kept


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
