# SPDX-License-Identifier: MIT
"""Keys of tiny models, by architecture. Keys start with a dot where the architecture's name stands before them."""

LAYERS = 8

COMMON = {
    ".vocab_size": 32, ".block_count": LAYERS, ".context_length": 4096, ".embedding_length": 256, ".feed_forward_length": 128,
    ".attention.head_count": 4, ".attention.head_count_kv": 2, ".attention.layer_norm_rms_epsilon": 1e-5,
}
EXPERTS = {".expert_count": 4, ".expert_used_count": 2, ".expert_feed_forward_length": 64}
# Latent attention: 64 channels without rotation and 32 with it.
LATENT = {".attention.head_count_kv": 1, ".attention.q_lora_rank": 32, ".attention.kv_lora_rank": 32,
          ".attention.key_length": 64, ".attention.value_length": 32, ".attention.key_length_mla": 96,
          ".attention.value_length_mla": 64, ".rope.dimension_count": 32}
SEPARATE_LATENT = {".attention.q_lora_rank": 32, ".attention.kv_lora_rank": 32, ".attention.head_count_kv": 4,
                   ".attention.key_length": 96, ".attention.value_length": 64, ".rope.dimension_count": 32}
INDEXER = {".attention.indexer.head_count": 2, ".attention.indexer.key_length": 64, ".attention.indexer.top_k": 64}
SSM = {".ssm.conv_kernel": 4, ".ssm.inner_size": 512, ".ssm.state_size": 128, ".ssm.time_step_rank": 8, ".ssm.group_count": 1}
DELTA = {".ssm.conv_kernel": 4, ".ssm.inner_size": 256, ".ssm.state_size": 64, ".ssm.time_step_rank": 4, ".ssm.group_count": 2}
LOCAL = [1, 1, 1, 0]
SOME_LAYERS = {".attention.head_count_kv": [0, 0, 0, 2] * (LAYERS // 4)}  # the others are linear
SOME_LATENT_LAYERS = {".attention.head_count_kv": [0, 0, 0, 1] * (LAYERS // 4)}
PATTERN = {".attention.sliding_window": 16, ".attention.sliding_window_pattern": LOCAL * (LAYERS // 4)}

# Every architecture of v0.5.0 that runs a tiny model and has attention. unrecorded.tsv has the others.
ARCHITECTURES = """
    afmoe apertus arcee arctic baichuan bailingmoe bailingmoe2 bailingmoe3 bert bitnet bloom chameleon chatglm
    codeshell cogvlm cohere2 cohere2moe command-r dbrx deci deepseek deepseek2 deepseek2-ocr deepseek32
    deepseek4 dots1 dots3note dream ernie4_5 ernie4_5-moe eurobert exaone exaone-moe exaone4 falcon falcon-h1
    gemma gemma-embedding gemma2 gemma3 gemma3n gemma4 glm-dsa glm4 glm4moe gpt-oss gpt2 gptneox granite
    granite_swa granitehybrid granitemoe graniteswitch grok grovemoe hrm_text hunyuan-dense hunyuan-moe
    hunyuan_vl hy_v3 hy_v4 internlm2 jais jais2 jamba jina-bert-v2 jina-bert-v3 kimi-k3 kimi-linear laguna
    lfm2 lfm2moe llada llada-moe llama llama-embed llama4 maincoder maple mellum mimo2 minicpm minicpm3
    minimax-01 minimax-m2 minimax-m3 mistral3 mistral4 modern-bert mpt muse-glimmer nanbeige nemotron
    nemotron_h nemotron_h_moe neo-bert nomic-bert nomic-bert-moe olmo olmo2 olmoe openelm orion paddleocr
    pangu-embedded phi2 phi3 phimoe plamo plamo2 plamo3 plm pockettts qwen qwen2 qwen2moe qwen2vl qwen3 qwen35
    qwen35moe qwen3moe qwen3next qwen3tts qwen3vl qwen3vlmoe qwen4exp refact rnd1 seed_oss smallthinker
    smollm3 spark2_5 stablelm starcoder starcoder2 step35 t5 t5encoder talkie xverse
""".split()

# Architectures whose loader asks for experts.
WITH_EXPERTS = """
    llama4 grok qwen2moe qwen3moe qwen3vlmoe phimoe cohere2moe dbrx arctic deepseek glm4moe exaone-moe bailingmoe bailingmoe2
    ernie4_5-moe hunyuan-moe gpt-oss llada-moe grovemoe minimax-01 rnd1 mellum qwen3next qwen35moe qwen4exp olmoe deepseek2
    deepseek2-ocr deepseek32 deepseek4 glm-dsa mistral4 dots1 dots3note afmoe laguna hy_v4 lfm2moe smallthinker minimax-m2
    minimax-m3 mimo2 step35 spark2_5 kimi-linear kimi-k3 bailingmoe3 maple nemotron_h_moe jamba
""".split()

# Architectures whose graph of several tokens fails, but not that of one.
ONE_TOKEN = ["plm"]

# Keys that an architecture needs beside the common ones.
EXTRA = {
    "afmoe": PATTERN | {".attention.sliding_window_pattern": 4},
    "bailingmoe3": LATENT | SOME_LATENT_LAYERS | {".kda.gate_lower_bound": -5.0, ".kda.head_dim": 64, ".ssm.conv_kernel": 4, ".leading_dense_block_count": 1},
    "deepseek2": LATENT,
    "deepseek2-ocr": {".attention.head_count_kv": 4},
    "deepseek4": INDEXER | {".attention.compress_ratios": [0, 0, 4, 128] * (LAYERS // 4), ".expert_gating_func": 4,
                            ".rope.dimension_count": 32, ".attention.compress_rope_freq_base": 40000.0,
                            ".hyper_connection.count": 4, ".attention.head_count_kv": 1, ".hash_layer_count": 0},
    "dots1": {".attention.head_count_kv": 4, ".expert_gating_func": 2},
    "deepseek32": LATENT | INDEXER,
    "dots3note": LATENT | INDEXER | {".attention.indexer.types": [0, 0, 0, 1] * (LAYERS // 4)} | PATTERN | {".attention.kv_lora_rank_swa": 32, ".attention.key_length_mla_swa": 96,
                                     ".attention.value_length_mla_swa": 64, ".rope.freq_base_swa": 10000.0},
    "falcon-h1": SSM,
    "chameleon": {".attention.head_count_kv": 4, ".vocab_size": 8200},
    "olmoe": {".attention.head_count_kv": 4},
    "smallthinker": {".expert_gating_func": 2},
    "minimax-m2": {".expert_gating_func": 2},
    "t5": {".attention.head_count_kv": 4, ".attention.relative_buckets_count": 32},
    "t5encoder": {".attention.head_count_kv": 4, ".attention.relative_buckets_count": 32},
    "gemma4": PATTERN | {".attention.key_length_swa": 64, ".attention.value_length_swa": 64},
    "gemma4-assistant": PATTERN | {".attention.key_length_swa": 64, ".attention.value_length_swa": 64},
    "glm-dsa": LATENT | INDEXER,
    "granite_swa": PATTERN,
    "granitehybrid": SSM | SOME_LAYERS,
    "graniteswitch": {".adapters.token_ids_activate": [1], ".adapters.token_ids_substitute": [1], ".logit_scale": 1.0},
    "hy_v4": LATENT | {".expert_gating_func": 2},
    "hrm_text": {".hrm.layers_per_stack": 4},
    "jamba": SSM | SOME_LAYERS,
    "kimi-k3": LATENT | SOME_LATENT_LAYERS | {".kda.head_dim": 64, ".ssm.conv_kernel": 4},
    "kimi-linear": LATENT | SOME_LATENT_LAYERS | {".kda.head_dim": 64, ".ssm.conv_kernel": 4},
    "lfm2": SOME_LAYERS,
    "lfm2moe": SOME_LAYERS,
    "maple": PATTERN,
    "minimax-m3": {".attention.indexer.head_count": 2, ".attention.indexer.key_length": 64, ".attention.indexer.top_k": 8,
                   ".attention.indexer.block_size": 8, ".attention.indexer.local_blocks": 1},
    "mimo2": PATTERN,
    "minicpm3": SEPARATE_LATENT,
    "mistral4": LATENT,
    "nemotron_h": SSM | SOME_LAYERS | {".feed_forward_length": [0, 0, 128, 0] * (LAYERS // 4)},
    "nemotron_h_moe": SSM | SOME_LAYERS | {".feed_forward_length": [0, 0, 128, 0] * (LAYERS // 4), ".expert_shared_feed_forward_length": 64,
                                            ".expert_gating_func": 2},
    "paddleocr": {".rope.dimension_sections": [12, 10, 10, 0]},
    "plamo2": SSM | SOME_LAYERS | {".ssm.group_count": 0},
    "plm": SEPARATE_LATENT,
    "qwen3next": DELTA,
    "qwen35": DELTA,
    "qwen35moe": DELTA,
    "qwen4exp": DELTA | {".hyper_connection.count": 2},
    "spark2_5": PATTERN,
    "step35": PATTERN,
}



def own_keys(architecture, changes=()):
    """The keys of an architecture, changed. None removes a key. Lists of LAYERS entries are repeated for other depths."""
    own = COMMON | (EXPERTS if architecture in WITH_EXPERTS else {}) | EXTRA.get(architecture, {}) | dict(changes)
    depth = own[".block_count"]
    own = {k: v * (depth // LAYERS + 1) if isinstance(v, list) and len(v) == LAYERS else v for k, v in own.items()}
    return {k: v[:depth] if isinstance(v, list) and len(v) > LAYERS else v for k, v in own.items() if v is not None}


def keys(architecture, changes=()):
    k = {"general.architecture": architecture, "general.name": "t", "tokenizer.ggml.model": "none",
         "tokenizer.ggml.token_type_count": 2}
    own = own_keys(architecture, changes)
    return k | {architecture + key if key.startswith(".") else key: v for key, v in own.items()}


# Tensors that are optional to the loader and that the graph needs: (name, layers, shape if it is not learned).
def is_any(layer):
    return True


def is_full(layer):
    return layer % 4 == 3


def is_linear(layer):
    return layer % 4 != 3


def is_mamba(layer):
    return layer % 4 < 2


SPLIT = [("attn_q", is_any), ("attn_k", is_any), ("attn_v", is_any)]
SPLIT_FULL = [("attn_q", is_full), ("attn_k", is_full), ("attn_v", is_full)]
DELTA_TENSORS = SPLIT_FULL + [("attn_qkv", is_linear), ("attn_gate", is_linear)]
OPTIONAL = {
    "falcon-h1": SPLIT + [("ssm_conv1d.bias", is_any)],
    "glm-dsa": [(f"indexer.{name}", is_any) for name in
                ("k_norm.weight", "k_norm.bias", "proj.weight", "attn_k.weight", "attn_q_b.weight")],
    "granitehybrid": SPLIT_FULL + [("ssm_conv1d.bias", is_linear)],
    "jina-bert-v2": [("ffn_up", is_any, [256, 128])],
    "laguna": [("attn_gate", is_any, [256, 4])],
    "nemotron_h": SPLIT_FULL + [("ssm_conv1d.bias", is_mamba)],
    "nemotron_h_moe": SPLIT_FULL + [("ssm_conv1d.bias", is_mamba)],
    "phi3": [("attn_qkv", is_any)],
    "pockettts": [("attn_qkv", is_any)],
    "qwen3next": DELTA_TENSORS,
    "qwen35": DELTA_TENSORS,
    "qwen35moe": DELTA_TENSORS,
}
# Those that are of no numbered layer "blk": names.
OPTIONAL_NAMES = {"t5": ["enc.blk.0.attn_rel_b.weight", "dec.blk.0.attn_rel_b.weight"], "t5encoder": ["enc.blk.0.attn_rel_b.weight"]}


def tensors(architecture, depth):
    return {f"blk.{i}.{name}" + ("" if name.endswith((".bias", ".weight")) else ".weight"): (shape[0] if shape else [1], None)
            for name, has, *shape in OPTIONAL.get(architecture, []) for i in range(depth) if has(i)} | {
                name: ([1], None) for name in OPTIONAL_NAMES.get(architecture, [])}
